"""The lead of a worker's claims: how far ahead starts must lie so that none has passed when it arrives."""

from collections import deque
from datetime import timedelta

from shoal.core.model import ZERO
from shoal.core.pacing import MAX_LEAD
from shoal.worker.prefetch import lag_of

# Replies that brought leases: they wait for the disk, others do not. One that is slower than all
# of these costs its starts and no more: the worker does not use a start that has passed.
RECENT_REPLIES = 20
MARGIN = 1.25


class ClaimLead:
    """Decides the lead from how long recent replies took; zero for a store that replies within the lag."""

    def __init__(self, gap: timedelta) -> None:
        self._recent: deque[float] = deque(maxlen=RECENT_REPLIES)
        self.set_gap(gap)

    def set_gap(self, gap: timedelta) -> None:
        """Set the gap between two requests to a host."""
        self._gap, self._lag = gap, lag_of(gap)

    def record_reply(self, seconds: float) -> None:
        """Record how long after its claim a reply arrived."""
        self._recent.append(seconds)

    def next(self) -> timedelta:
        """Return the lead of the next claim."""
        if not self._gap or not self._recent:
            return ZERO
        return min(max(ZERO, timedelta(seconds=MARGIN * max(self._recent) - self._lag)), MAX_LEAD)
