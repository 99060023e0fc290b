"""The queue's benchmark: `make bench-queue` runs it, docs/reference/results.md has its results."""
