"""Visitors: what belongs to each of them, how well they are received, and when they are replaced."""
