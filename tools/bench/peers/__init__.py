"""Other queues at the same work; each module has a `load` and a `work` for processes that run at once."""
