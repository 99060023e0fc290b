"""A small shop on loopback to try Shoal on, and the scraper for it."""
