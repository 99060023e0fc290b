"""The HTTP cache (RFC 9111)."""
