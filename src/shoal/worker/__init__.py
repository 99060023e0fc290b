"""The worker: claims, fetches, handles and settles, all four at once."""
