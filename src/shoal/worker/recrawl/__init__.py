"""Recrawls: what earlier runs recorded of a page."""
