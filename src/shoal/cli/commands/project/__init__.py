"""Commands for writing a scraper."""
