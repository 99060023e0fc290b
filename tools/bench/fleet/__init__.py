"""A simulated fleet: `make bench-fleet` runs it, docs/reference/benchmarks-fleet.md says what it measures."""
