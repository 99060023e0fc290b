"""Logs and metrics of a fleet."""
