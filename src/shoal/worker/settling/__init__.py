"""How tasks leave a worker: settled in batches, passed to callers, released when it has died."""
