"""Whole runs: their sources, limits, ends and results."""
