"""A simulated fleet: `make bench-fleet` runs it, docs/reference/results.md has its results."""
