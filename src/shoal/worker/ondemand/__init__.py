"""On-demand calls, on the worker's side."""
