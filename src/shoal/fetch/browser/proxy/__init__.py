"""The proxy on loopback that every connection of the browser goes through."""
