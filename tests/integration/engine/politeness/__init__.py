"""Rates, robots.txt, proxies and the cache of a run."""
