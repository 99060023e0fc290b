"""The worker: it claims, fetches, handles and settles tasks, all four concurrently."""
