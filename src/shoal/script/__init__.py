"""A scraper run by the program that defines it: a script, a notebook or a test."""
