"""The store's clock as seen from a worker."""

from collections import deque
from datetime import datetime

SAMPLES = 64


class StoreClock:
    """Converts times of the store to the worker's clock.

    A reply arrives with an unknown delay. The fastest of many has hardly any, so the clock difference that it
    shows is used for all of them. Its delay is at most its round trip: that is the `uncertainty` of the last
    conversion, which is large as long as no reply was fast.
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque(maxlen=SAMPLES)  # clock difference, round trip
        self.uncertainty = 0.0  # seconds

    def to_local(self, moment: datetime | None, received_at: float, sent_at: float | None = None) -> float:
        """Return a moment of the store by the worker's clock; the reply that carried it has just arrived."""
        round_trip = 0.0 if sent_at is None else received_at - sent_at
        if moment is None:
            self.uncertainty = round_trip
            return received_at
        stamp = moment.timestamp()
        self._samples.append((received_at - stamp, round_trip))
        difference, self.uncertainty = min(self._samples)
        # The store replies after the request was sent: an earlier moment only means its clock was set back.
        return stamp + difference if sent_at is None else max(stamp + difference, sent_at)
