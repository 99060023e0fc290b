"""Reports: progress, overview, records, stale leases, proxies, tokens, checks."""
