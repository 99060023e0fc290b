"""A pool of API tokens that a fleet shares out: none is asked for more than its host allows."""
