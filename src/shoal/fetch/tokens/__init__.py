"""A pool of API tokens that a fleet shares, within the rate limit of each token."""
