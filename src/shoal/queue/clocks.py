"""Clocks of several servers, as one process sees them."""

from collections import deque
from datetime import timedelta

from msgspec.structs import replace

from shoal.core.model import Lease

SAMPLES = 64  # replies from which the offset of a server's clock is estimated


class ServerClocks:
    """Converts a server's time to this process's clock.

    Servers have clocks of their own. The quickest of many replies shows the offset of one; a reply is never
    older than its request, also where a clock was set back.
    """

    def __init__(self) -> None:
        self._offsets: dict[int, deque[float]] = {}

    def local(self, server: int, now: int, sent_at: float, received_at: float) -> float:
        """Return the moment `now` of a server (microseconds), in seconds of the event loop's clock."""
        theirs = now / 1_000_000
        offsets = self._offsets.setdefault(server, deque(maxlen=SAMPLES))
        offsets.append(received_at - theirs)
        return min(received_at, max(sent_at, theirs + min(offsets)))

    def difference(self, server: int, other: int) -> float:
        """Return how far the clock of a server is behind that of another, in seconds; both have replied."""
        if server == other or other not in self._offsets:
            return 0.0
        return min(self._offsets[server]) - min(self._offsets[other])


def shift_lease(lease: Lease, later: timedelta) -> Lease:
    """Count the durations of a lease from an earlier moment; a task without a host starts at once."""
    if not later or lease.task.url is None:
        return lease
    return replace(lease, start_in=lease.start_in + later, deadline_in=lease.deadline_in + later)
