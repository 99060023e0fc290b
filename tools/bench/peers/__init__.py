"""Other queues at the same work; each module has a `load` and a `work` for the processes of a crew."""
