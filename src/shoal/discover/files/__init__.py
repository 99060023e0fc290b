"""URL files: lines, tables, JSON records."""
