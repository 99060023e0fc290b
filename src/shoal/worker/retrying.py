"""Which errors of a queue pass, how long a worker waits before it tries again, and what it says meanwhile."""

import asyncio
import logging
import random
from datetime import timedelta

from shoal.core.errors import (
    MissingDriver,
    QueueError,
    QueueFull,
    QueueReadOnly,
    QueueRefused,
    QueueUnavailable,
    RunConflict,
    SchemaTooNew,
    UnknownQueue,
    UnknownRun,
)
from shoal.core.events import QUEUE_AWAY, as_event

# The store is away, full, or a replica: that is nobody's fault here, and ends some time. It is waited for.
PASSING = (QueueUnavailable, QueueFull, QueueReadOnly)
# Trying again is of no use.
FINAL = (QueueRefused, UnknownRun, RunConflict, SchemaTooNew, UnknownQueue, MissingDriver)

FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0  # seconds

log = logging.getLogger(__name__)


class Retrying:
    """The tries of one verb: how long to wait until the next, and whether there is to be one."""

    def __init__(self, what: str, give_up_after: timedelta) -> None:
        self._what, self._give_up_after = what, give_up_after.total_seconds()
        self._wait = FIRST_WAIT
        self._unknown_since: float | None = None
        self._is_told = False

    def succeeded(self) -> None:
        """Forget the failures: the verb works."""
        if self._is_told:
            log.info("The worker can %s again.", self._what)
        self._wait, self._unknown_since, self._is_told = FIRST_WAIT, None, False

    def failed(self, error: Exception) -> float:
        """Return how many seconds to wait; raises the error if it is final, or unknown for too long."""
        now = asyncio.get_running_loop().time()
        if isinstance(error, PASSING):
            self._unknown_since = None
        elif isinstance(error, FINAL) or not isinstance(error, QueueError):
            raise error
        elif self._unknown_since is None:
            self._unknown_since = now
        elif now - self._unknown_since > self._give_up_after:
            raise error
        return self.wait(error)

    def wait(self, error: Exception) -> float:
        """Return how many seconds to wait before the next try; the first time, say why."""
        if not self._is_told:
            self._is_told = True
            log.warning(
                "The worker cannot %s at the moment, and tries again by itself: %s",
                self._what,
                error,
                extra=as_event(QUEUE_AWAY),
            )
        # Jittered: a fleet that was refused together must not come back together.
        seconds = self._wait * random.uniform(0.5, 1.5)
        self._wait = min(self._wait * 2, LONGEST_WAIT)
        return seconds
