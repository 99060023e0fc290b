"""The crawler's benchmark: `make bench-crawl` runs it, docs/reference/benchmarks-crawl.md says what it measures."""
