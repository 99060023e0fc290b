"""Hooks of scrapers, in worker processes."""
