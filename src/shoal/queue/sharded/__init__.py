"""The queue on several servers: each host belongs to one of them."""
