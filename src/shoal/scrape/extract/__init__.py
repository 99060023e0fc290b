"""Data that pages hold beside their text: JSON-LD, microdata, Open Graph, tables and feeds."""
