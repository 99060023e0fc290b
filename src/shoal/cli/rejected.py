"""Telling which of the given URLs could not be queued."""

from shoal.cli.console import say
from shoal.core.errors import InvalidTask

MOST_SHOWN = 10


class Rejected:
    """Shows the first few invalid URLs, and counts the rest."""

    def __init__(self) -> None:
        self.count = 0

    def note(self, position: int, error: InvalidTask) -> None:
        """Take note of one."""
        self.count += 1
        if self.count <= MOST_SHOWN:
            say(f"Passed over number {position + 1}: {error}")
        elif self.count == MOST_SHOWN + 1:
            say("Passed over more of them; the summary has their number.")
