"""The store's clock as seen from a worker."""

from collections import deque
from datetime import datetime

SAMPLES = 64


class StoreClock:
    """Tells when, by the worker's clock, the store said its time.

    An answer is late by an unknown while. The quickest of many is hardly late at all, so that what it shows
    of the two clocks is taken for all of them.
    """

    def __init__(self) -> None:
        self._differences: deque[float] = deque(maxlen=SAMPLES)

    def local(self, moment: datetime | None, heard_at: float) -> float:
        """Return a moment of the store, heard of now, by the worker's clock."""
        if moment is None:
            return heard_at
        stamp = moment.timestamp()
        self._differences.append(heard_at - stamp)
        return stamp + min(self._differences)
