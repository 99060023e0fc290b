"""Commands that run scrapers."""
