"""Hooks: the user's functions that run between the queue and a step, and at both ends of a worker."""
