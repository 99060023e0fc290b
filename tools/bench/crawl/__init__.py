"""The crawl benchmark: `make bench-crawl` runs it, docs/reference/results.md has its results."""
