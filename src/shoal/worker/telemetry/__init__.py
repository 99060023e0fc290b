"""Logs, metrics and traces of a worker."""
