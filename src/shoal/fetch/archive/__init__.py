"""Recording exchanges, and playing them back."""
