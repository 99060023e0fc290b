"""Requests through proxies: which proxy is used, and how each one performs."""
