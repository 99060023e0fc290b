"""The settings of a scraper: each is parsed and validated."""
