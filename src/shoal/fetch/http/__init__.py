"""Fetching over HTTP: redirects, cookies, decoding, and the two engines."""
