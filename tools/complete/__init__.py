"""Crawls real documentation to its last page, and sites without end to where they are left."""
