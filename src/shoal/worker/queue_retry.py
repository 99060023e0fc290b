"""Retries of queue operations: which errors are transient, how long to wait, and what is logged."""

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
    QueueReplaced,
    QueueUnavailable,
    RunConflict,
    SchemaTooNew,
    UnknownQueue,
    UnknownRun,
)
from shoal.core.events import QUEUE_AWAY, as_event

# The store is unreachable, full, or a replica: not the worker's fault, and temporary. Retried without end.
TRANSIENT = (QueueUnavailable, QueueFull, QueueReadOnly)
# A retry cannot help.
FINAL = (QueueRefused, QueueReplaced, UnknownRun, RunConflict, SchemaTooNew, UnknownQueue, MissingDriver)

FIRST_WAIT, MAX_WAIT = 0.1, 5.0  # seconds

log = logging.getLogger(__name__)


class QueueRetry:
    """Retries of one operation: whether to try again, and how long to wait before that."""

    def __init__(self, what: str, give_up_after: timedelta) -> None:
        self._what, self._give_up_after = what, give_up_after.total_seconds()
        self._wait = FIRST_WAIT
        self._unknown_since: float | None = None
        self._is_logged = False

    def on_success(self) -> None:
        """Reset after the operation has succeeded."""
        if self._is_logged:
            log.info("The worker can %s again.", self._what)
        self._wait, self._unknown_since, self._is_logged = FIRST_WAIT, None, False

    def on_failure(self, error: Exception) -> float:
        """Return the seconds to wait; raises the error if it is final, or of unknown kind for too long."""
        now = asyncio.get_running_loop().time()
        if isinstance(error, TRANSIENT):
            self._unknown_since = None
        elif isinstance(error, FINAL) or not isinstance(error, QueueError):
            raise error
        elif self._unknown_since is None:
            self._unknown_since = now
        elif now - self._unknown_since > self._give_up_after:
            raise error
        return self.next_wait(error)

    def next_wait(self, error: Exception) -> float:
        """Return the seconds to wait before the next attempt; the first time, log the error."""
        if not self._is_logged:
            self._is_logged = True
            # Without what the user types when a command has failed: this one goes on.
            fact = error.fact if isinstance(error, QueueUnavailable) else error
            log.warning(
                "The worker cannot %s at the moment and retries automatically: %s",
                self._what,
                fact,
                extra=as_event(QUEUE_AWAY),
            )
        # Jittered: workers that failed at the same time must not retry at the same time.
        seconds = self._wait * random.uniform(0.5, 1.5)
        self._wait = min(self._wait * 2, MAX_WAIT)
        return seconds
