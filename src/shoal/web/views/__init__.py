"""Rendering: templates, formats, paging."""
