"""How long an example waits for anything, and how it says that it was in vain."""

# Seconds. Nothing here takes that long; a machine that does much else may be slow, and is no failure.
PATIENCE = 300.0
POLL = 0.5  # seconds between two looks: each is a process that would take time from the workers


class Failure(Exception):
    """What an example showed is not what it must show."""
