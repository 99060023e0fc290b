"""How a worker gets tasks: its claims, and the clock of the store that they follow."""
