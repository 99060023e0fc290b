"""How long a queue's server is waited for, and how often it is asked again."""

import asyncio
import logging
import random
from datetime import timedelta

from shoal.core.errors import QueueUnavailable
from shoal.core.events import QUEUE_AWAY, QUEUE_BACK, as_event

FIRST_WAIT = 0.05  # seconds
LONGEST_WAIT = 2.0
UNNOTICED = 0.5  # a call that is answered by then has not been held up for anyone to see
TELL_EVERY = 60.0  # seconds, while a server is away

log = logging.getLogger(__name__)


class Obedience:
    """Stops a caller whose cancellation a driver has swallowed: an answer came just then, or an error."""

    def __init__(self) -> None:
        self._before = _cancellations()  # of one who tidies up, for instance

    def check(self) -> None:
        """Raise CancelledError if the task was cancelled since this was made."""
        if _cancellations() > self._before:
            raise asyncio.CancelledError


def _cancellations() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task else 0


class Outage:
    """Says for all calls that a server is away, once a minute that it still is, and that it is back."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._since: float | None = None
        self._told = self._ended = 0.0

    def goes_on(self, began: float, now: float, reason: str) -> None:
        """Take note that a call that began then is not answered by now."""
        began = max(began, self._ended)
        if self._since is None and now - began >= UNNOTICED:
            self._since, self._told = began, now
            log.warning("Waiting for the queue at %s: %s", self.address, reason, extra=as_event(QUEUE_AWAY))
        elif self._since is not None and now - self._told >= TELL_EVERY:
            self._told = now
            told = (self.address, reason, now - self._since)
            log.warning("Waiting for the queue at %s: %s (for %.0f s)", *told, extra=as_event(QUEUE_AWAY))

    def end(self) -> None:
        """Take note that a call was answered."""
        if self._since is None:
            return
        self._ended = asyncio.get_running_loop().time()
        told = (self.address, self._ended - self._since)
        self._since = None
        log.warning("The queue at %s is back after %.0f s.", *told, extra=as_event(QUEUE_BACK))


class Patience:
    """Waits between the tries of one call, visibly, until it has been tried for long enough."""

    def __init__(self, outage: Outage, patience: timedelta) -> None:
        self._outage = outage
        self._began = asyncio.get_running_loop().time()
        self._give_up = self._began + patience.total_seconds()
        self._wait = FIRST_WAIT
        self.tries = 0

    async def again(self, reason: str, error: BaseException) -> None:
        """Wait before the next try; raises QueueUnavailable when there shall be none."""
        self.tries += 1
        now = asyncio.get_running_loop().time()
        if now + self._wait > self._give_up:
            raise QueueUnavailable(self._outage.address, reason) from error
        self._outage.goes_on(self._began, now + self._wait, reason)
        # Jittered: a fleet that lost its server together must not come back together.
        await asyncio.sleep(self._wait * random.uniform(0.5, 1.5))
        self._wait = min(self._wait * 2, LONGEST_WAIT)
