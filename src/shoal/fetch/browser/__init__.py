"""Fetching with Chromium over CDP, behind the same egress rules as every other request."""
