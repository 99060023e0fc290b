"""How long a queue's server is waited for, and how often it is asked again."""

import asyncio
import logging
import random
from datetime import timedelta

from shoal.core.errors import QueueUnavailable
from shoal.core.events import QUEUE_AWAY, as_event

FIRST_WAIT = 0.05  # seconds
LONGEST_WAIT = 2.0
UNNOTICED = 0.5  # a call that is answered by then has not been held up for anyone to see

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


class Patience:
    """Waits between the tries of one call, visibly, until it has been tried for long enough."""

    def __init__(self, address: str, patience: timedelta) -> None:
        self._address = address
        self._began = asyncio.get_running_loop().time()
        self._give_up = self._began + patience.total_seconds()
        self._wait = FIRST_WAIT
        self.tries = 0

    async def again(self, reason: str, error: BaseException) -> None:
        """Wait before the next try; raises QueueUnavailable when there shall be none."""
        self.tries += 1
        now = asyncio.get_running_loop().time()
        if now + self._wait > self._give_up:
            raise QueueUnavailable(self._address, reason) from error
        if now + self._wait - self._began >= UNNOTICED:
            told = (self._address, reason, self.tries)
            log.warning("Waiting for the queue at %s: %s (try %d)", *told, extra=as_event(QUEUE_AWAY))
        # Jittered: a fleet that lost its server together must not come back together.
        await asyncio.sleep(self._wait * random.uniform(0.5, 1.5))
        self._wait = min(self._wait * 2, LONGEST_WAIT)
