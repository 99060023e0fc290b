"""The long haul: `make bench-haul` runs it, docs/reference/benchmarks-fleet.md says what it measures."""
