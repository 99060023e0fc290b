"""Commands that show the state of a queue."""
