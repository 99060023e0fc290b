"""How a worker gets tasks and keeps the gap of hosts: claims, the store's clock, when requests have left."""
