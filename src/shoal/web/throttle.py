"""A lock that closes for a minute when too many wrong tokens were tried."""

import logging
import math
import time
from collections import deque
from collections.abc import Callable

log = logging.getLogger(__name__)

PERIOD = 60.0  # seconds that a failure counts, and that a lock is closed
FROM_ONE, FROM_ALL = 10, 100
ALL = ""  # in the place of an address: everybody


class Throttle:
    """Counts failures of the last minute, by address and together; no more than `FROM_ALL` are remembered."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: deque[tuple[float, str]] = deque(maxlen=FROM_ALL)
        self._locked: dict[str, float] = {}  # until when, by address

    def failed(self, address: str) -> None:
        """Take note of a wrong token."""
        now = self._clock()
        self._failures.append((now, address))
        recent = [who for at, who in self._failures if at > now - PERIOD]
        if recent.count(address) >= FROM_ONE:
            self._locked[address] = now + PERIOD
            log.warning("Too many wrong tokens came from %s; it is locked out for a minute.", address)
        if len(recent) >= FROM_ALL:
            self._locked[ALL] = now + PERIOD
            log.warning("Too many wrong tokens came; the login is locked for a minute.")

    def wait(self, address: str) -> int:
        """Return for how many seconds an address is locked out; zero if it may try."""
        now = self._clock()
        self._locked = {who: until for who, until in self._locked.items() if until > now}
        ends = [self._locked[who] for who in (address, ALL) if who in self._locked]
        return math.ceil(max(ends) - now) if ends else 0
