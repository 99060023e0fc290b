"""Which links are followed."""
