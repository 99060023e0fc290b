"""How a page comes home: by HTTP, through one door to the network."""
