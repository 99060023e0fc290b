"""The verbs of the queue, one module for each group of the contract."""
