"""Bytes of a page to text, and text to a tree."""
