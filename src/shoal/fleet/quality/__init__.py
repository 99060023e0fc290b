"""What the items of a run look like, and whether that is as expected."""
