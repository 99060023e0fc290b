"""Commands as they are typed, and what they show."""
