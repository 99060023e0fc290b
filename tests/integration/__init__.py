"""Each backend under real conditions."""
