"""Communication between a worker process, its supervisor and callers: messages and shared memory."""
