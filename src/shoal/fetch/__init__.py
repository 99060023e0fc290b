"""Fetching pages by HTTP or with a browser, through one egress."""
