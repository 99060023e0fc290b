"""The crawl benchmark: `make bench-crawl` runs it, docs/reference/benchmarks-crawl.md tells of it."""
