"""Sessions: the cookies, headers and browser profile of a client, their score, and when they are retired."""
