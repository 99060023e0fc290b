"""One-time login tickets, valid for ten minutes."""

import secrets
import time
from collections.abc import Callable
from hashlib import sha256

TICKET_TTL_SECONDS = 600.0
MAX_TICKETS = 100


class Tickets:
    """The unused tickets."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ends: dict[bytes, float] = {}

    def issue(self) -> str:
        """Create a ticket."""
        ticket = secrets.token_urlsafe(24)
        self._ends[_digest(ticket)] = self._clock() + TICKET_TTL_SECONDS
        for oldest in list(self._ends)[:-MAX_TICKETS]:
            del self._ends[oldest]
        return ticket

    def redeem(self, ticket: str) -> bool:
        """Use a ticket; False if it is unknown, used or expired."""
        # Looked up by hash, so the timing reveals nothing about the ticket.
        end = self._ends.pop(_digest(ticket), None)
        return end is not None and self._clock() < end


def _digest(ticket: str) -> bytes:
    return sha256(ticket.encode()).digest()
