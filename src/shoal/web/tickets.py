"""Tickets: each lets one browser in, once, within ten minutes."""

import secrets
import time
from collections.abc import Callable
from hashlib import sha256

VALID = 600.0  # seconds
MOST = 100


class Tickets:
    """Knows the tickets that nobody has used."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ends: dict[bytes, float] = {}

    def issue(self) -> str:
        """Return a new ticket."""
        ticket = secrets.token_urlsafe(24)
        self._ends[_digest(ticket)] = self._clock() + VALID
        for oldest in list(self._ends)[:-MOST]:
            del self._ends[oldest]
        return ticket

    def take(self, ticket: str) -> bool:
        """Use a ticket up; False if there is no such one, or its time is over."""
        # Looked up by its hash: how long that takes tells nothing of the ticket.
        end = self._ends.pop(_digest(ticket), None)
        return end is not None and self._clock() < end


def _digest(ticket: str) -> bytes:
    return sha256(ticket.encode()).digest()
