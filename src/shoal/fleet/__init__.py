"""Runs and the workers on them: starting, watching, stopping."""
