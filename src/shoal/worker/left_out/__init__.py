"""What a run leaves out, and why."""
