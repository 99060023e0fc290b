"""Schedules: which runs start when, and their occurrences, kept in the queue."""
