"""Links to hosts of other servers: stored with their page, delivered soon after."""
