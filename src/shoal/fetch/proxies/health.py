"""How one proxy performs in one worker."""

from collections import Counter
from enum import StrEnum

import msgspec

from shoal.core.http import Proxy

MAX_STREAK = 3  # consecutive failures after which a working proxy no longer counts as working
AVERAGE_WEIGHT = 0.2  # of the newest page in the moving average of the response time


class ProxyFault(StrEnum):
    """What went wrong with a proxy."""

    DEAD = "dead"  # it is unreachable, or breaks the protocol
    REFUSED = "refused"  # it is reachable, and rejects the request
    SLOW = "slow"  # it timed out
    BLOCKED = "blocked"  # the host rejects it


class ProxyHealth(msgspec.Struct, eq=False):
    """The record of a proxy in this worker."""

    proxy: Proxy
    in_flight: int = 0  # requests in flight
    used: int = 0  # times that it was picked
    pages: int = 0
    has_worked: bool = False
    faults: Counter[ProxyFault] = msgspec.field(default_factory=Counter)
    last_fault: ProxyFault | None = None
    streak: int = 0  # failures in a row
    seconds: float | None = None  # moving average of the time that a page takes
    last_page: float | None = None  # when the last page arrived
    is_on_trial: bool = False  # it was benched, and has not worked since

    @property
    def is_suspect(self) -> bool:
        """Whether it gets no more than one request at a time."""
        return not self.has_worked or self.streak > 0 or self.is_on_trial

    @property
    def is_proven(self) -> bool:
        """Whether it is known to work, so that a failure may be its target's."""
        return self.has_worked and self.streak < MAX_STREAK and not self.is_on_trial

    def record_page(self, seconds: float, now: float) -> None:
        """Record a page."""
        self.record_success()
        self.pages += 1
        self.last_page = now
        self.seconds = (
            seconds if self.seconds is None else self.seconds + AVERAGE_WEIGHT * (seconds - self.seconds)
        )

    def record_success(self) -> None:
        """Record that the proxy itself worked, whatever its target responded."""
        self.has_worked, self.streak, self.is_on_trial = True, 0, False

    def record_failure(self, fault: ProxyFault) -> None:
        """Record a failure of the proxy itself."""
        self.record_fault(fault)
        self.streak += 1

    def record_fault(self, fault: ProxyFault) -> None:
        """Record a fault, whether of the proxy or of its target."""
        self.faults[fault] += 1
        self.last_fault = fault

    def return_from_bench(self) -> None:
        """Return from the bench, on trial."""
        self.streak, self.is_on_trial = 0, True
