"""The queue's benchmark: `make bench-queue` runs it, docs/reference/benchmarks.md says what it measures."""
