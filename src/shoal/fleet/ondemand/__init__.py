"""On-demand calls, caller side: find listening workers, send them tasks, return the items."""
