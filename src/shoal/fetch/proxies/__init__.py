"""Requests that go out by proxies: which one is taken, and what is known of each."""
