"""One run on this machine: launch, worker pool, lock, results, end."""
