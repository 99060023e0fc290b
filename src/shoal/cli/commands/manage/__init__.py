"""Commands that change runs and results."""
