"""How a page comes home from a browser: Chromium, spoken to directly, behind the same door as everything."""
