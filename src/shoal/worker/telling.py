"""What a worker tells for its log: failed tasks, hosts that are spared, a queue that is away.

It writes no file itself. Its keeper does, so that the last words of a worker that dies are kept too.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from shoal.core.errors import QueueError
from shoal.core.events import (
    CLAIM_FAILED,
    HOST_PAUSED,
    HOST_SLOWED,
    QUEUE_AWAY,
    QUEUE_BACK,
    RESULT_REFUSED,
    SETTLE_FAILED,
    TASK_BEGUN,
    TASK_DONE,
    TASK_FAILED,
    TASK_RELEASED,
    Event,
    Level,
    event_of,
)
from shoal.core.model import Bury, Done, Fate, Lease, Outcome, Release, Retry, error_text
from shoal.core.redact import bare_url
from shoal.core.secrets import hidden
from shoal.worker.stock import host_of
from shoal.worker.watching import Watcher

Tell = Callable[[Event], None]


class Teller(Watcher):
    """Tells what happens, from a level on."""

    def __init__(self, tell: Tell, level: int) -> None:
        self._tell, self._level = tell, level
        self._away_since: float | None = None
        self._began: dict[tuple[str, int], float] = {}  # tasks that are under way

    def note(self, level: int, name: str, **fields: Any) -> None:
        """Tell an event."""
        if level >= self._level:
            self._tell(Event(at=time.time(), level=level, name=name, fields=fields))

    def heard(self, event: Event) -> None:
        """Pass on what was said through Python's own logging."""
        if event.name == QUEUE_AWAY:
            self._note_away()
        elif event.name == QUEUE_BACK:
            self._away_since = None  # it is told once
        self._tell(event)

    def claimed(self, leases: Sequence[Lease]) -> None:
        if self._away_since is not None:
            away = round(time.monotonic() - self._away_since, 3)
            self._away_since = None
            self.note(Level.INFO, QUEUE_BACK, away_seconds=away)

    def begun(self, lease: Lease) -> None:
        self._began[lease.task_id, lease.token] = time.monotonic()
        if self._level <= Level.INFO:
            self.note(Level.INFO, TASK_BEGUN, **_about(lease))

    def refused(self, verb: str, error: QueueError) -> None:
        self._note_away()
        name = CLAIM_FAILED if verb == "claim" else SETTLE_FAILED
        self.note(Level.WARNING, name, error=type(error).__name__, message=str(error))

    def settled(self, outcome: Outcome, fate: Fate, began: float, ended: float) -> None:
        start = self._began.pop((outcome.lease.task_id, outcome.lease.token), None)
        took = {} if start is None else {"seconds": round(began - start, 3)}
        if fate is Fate.STALE:
            kind = type(outcome).__name__.lower()
            self.note(Level.INFO, RESULT_REFUSED, **_about(outcome.lease), outcome=kind, **took)
            return
        match outcome:
            case Retry() | Bury():
                self._failed(outcome, took)
            case Done() if self._level <= Level.INFO:
                counts = {
                    "items": len(outcome.items),
                    "rejected": len(outcome.rejects),
                    "follow": len(outcome.follow),
                }
                self.note(Level.INFO, TASK_DONE, **_about(outcome.lease), outcome="done", **took, **counts)
            case Release() if took and self._level <= Level.INFO:
                again = {"again_in": outcome.after.total_seconds()}
                self.note(
                    Level.INFO, TASK_RELEASED, **_about(outcome.lease), outcome="release", **took, **again
                )
            case Done() | Release():
                pass

    def _note_away(self) -> None:
        if self._away_since is None:
            self._away_since = time.monotonic()

    def _failed(self, outcome: Retry | Bury, took: dict[str, float]) -> None:
        kind, _, message = error_text(outcome.error).partition(": ")
        again = {"again_in": outcome.after.total_seconds()} if isinstance(outcome, Retry) else {}
        about = _about(outcome.lease) | took
        verdict = "retry" if isinstance(outcome, Retry) else "bury"
        self.note(Level.WARNING, TASK_FAILED, **about, error=kind, message=message, outcome=verdict, **again)
        host = host_of(outcome.lease)
        if outcome.slow_host:
            self.note(Level.INFO, HOST_SLOWED, host=host, gap_seconds=outcome.slow_host.total_seconds())
        if outcome.pause_host:
            self.note(Level.INFO, HOST_PAUSED, host=host, seconds=outcome.pause_host.total_seconds())


def _about(lease: Lease) -> dict[str, Any]:
    url = lease.task.url
    about = {"task": lease.task_id, "step": lease.task.step, "attempt": lease.attempt}
    return about | ({"url": bare_url(url)} if url else {})


class Overheard(logging.Handler):
    """Tells what is said through Python's own logging: by steps, by libraries, by Shoal's own parts."""

    def __init__(self, tell: Tell, level: int) -> None:
        super().__init__(level)
        self._tell, self._loop = tell, asyncio.get_running_loop()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            # A step may run in a thread, and the line is the loop's.
            self._loop.call_soon_threadsafe(self._tell, self._event(record))
        except Exception:
            # A message that cannot be formatted, or a loop that has ended, must not fail the step.
            self.handleError(record)

    def _event(self, record: logging.LogRecord) -> Event:
        fields = {"logger": record.name, "message": hidden(self.format(record))}
        return Event(at=record.created, level=record.levelno, name=event_of(record), fields=fields)


def overhear(tell: Tell, level: int) -> None:
    """Tell from now on what is said through Python's own logging in this process, from a level on."""
    # Whoever listened to Shoal before, such as the command line that this process was split off from, is told
    # by the keeper; else everything would be said twice.
    logging.getLogger("shoal").handlers.clear()
    root = logging.getLogger()
    root.addHandler(Overheard(tell, level))
    root.setLevel(min(level, logging.WARNING))
