"""Target combinations: axes, templates, and the URLs or payloads built from them."""
