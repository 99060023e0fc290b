"""Recording exchanges, and replaying them."""
