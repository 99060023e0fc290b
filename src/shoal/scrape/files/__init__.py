"""Downloads: what a step asks for, and the names that files get."""
