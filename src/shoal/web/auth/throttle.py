"""A login throttle: too many wrong tokens lock the login for a minute."""

import logging
import math
import time
from collections import deque
from collections.abc import Callable

log = logging.getLogger(__name__)

LOCK_TIMEOUT_SECONDS = 60.0  # how long a failure counts, and how long a lock lasts
MAX_FAILURES_PER_ADDRESS, MAX_FAILURES = 10, 100
ALL = ""  # key that stands for every address


class Throttle:
    """Counts the failures of the last minute, by address and in total; remembers `MAX_FAILURES` at most."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: deque[tuple[float, str]] = deque(maxlen=MAX_FAILURES)
        self._locked: dict[str, float] = {}  # end of the lock, by address

    def record_failure(self, address: str) -> None:
        """Count a wrong token."""
        now = self._clock()
        self._failures.append((now, address))
        recent = [origin for at, origin in self._failures if at > now - LOCK_TIMEOUT_SECONDS]
        if recent.count(address) >= MAX_FAILURES_PER_ADDRESS:
            self._locked[address] = now + LOCK_TIMEOUT_SECONDS
            log.warning(
                "Too many wrong tokens from %s; login locked for this address for one minute.", address
            )
        if len(recent) >= MAX_FAILURES:
            self._locked[ALL] = now + LOCK_TIMEOUT_SECONDS
            log.warning("Too many wrong tokens; login locked for every address for one minute.")

    def wait_seconds(self, address: str) -> int:
        """Return how many seconds an address is still locked out; zero if it may try."""
        now = self._clock()
        self._locked = {key: until for key, until in self._locked.items() if until > now}
        ends = [self._locked[key] for key in (address, ALL) if key in self._locked]
        return math.ceil(max(ends) - now) if ends else 0
