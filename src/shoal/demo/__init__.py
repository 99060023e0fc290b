"""A small web shop on loopback to try Shoal with, and a scraper for it."""
