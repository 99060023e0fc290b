"""The JSON API and the live pages."""
