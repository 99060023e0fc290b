"""The hooks of a run: called once in the fleet, by a worker that holds them with a fencing token."""
