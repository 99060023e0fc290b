"""Which worker serves which partition of a run."""
