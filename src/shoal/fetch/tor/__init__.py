"""Fetching through Tor: a Tor process for each worker, and a circuit for each host."""
