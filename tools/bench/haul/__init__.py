"""The long haul: `make bench-haul` runs it, docs/reference/results.md has its results."""
