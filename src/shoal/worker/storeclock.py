"""The store's clock as seen from a worker."""

from collections import deque
from datetime import datetime

SAMPLES = 64


class StoreClock:
    """Tells when, by the worker's clock, the store said its time.

    An answer is late by an unknown while. The quickest of many is hardly late at all, so that what it shows
    of the two clocks is taken for all of them. It may be as late as its asker waited for it: that is the
    `doubt` of what was told last, which is large as long as no answer was quick.
    """

    def __init__(self) -> None:
        self._looks: deque[tuple[float, float]] = deque(maxlen=SAMPLES)  # how far apart, and how long it took
        self.doubt = 0.0  # seconds

    def local(self, moment: datetime | None, heard_at: float, asked_at: float | None = None) -> float:
        """Return a moment of the store, heard of now, by the worker's clock."""
        took = 0.0 if asked_at is None else heard_at - asked_at
        if moment is None:
            self.doubt = took
            return heard_at
        stamp = moment.timestamp()
        self._looks.append((heard_at - stamp, took))
        difference, self.doubt = min(self._looks)
        # The store answers after it was asked: an earlier moment only shows that its clock was set back.
        return stamp + difference if asked_at is None else max(stamp + difference, asked_at)
