"""How many workers a run should have, and the drivers that start and stop them."""
