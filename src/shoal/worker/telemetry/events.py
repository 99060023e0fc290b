"""Log events of a worker: failed tasks, hosts that are slowed or paused, a queue that is unreachable.

It writes no file itself. Its supervisor does, so that the last events of a worker that dies are logged too.
"""

import asyncio
import logging
import time
from collections.abc import Callable
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
from shoal.core.failures import TRACEBACK, error_text
from shoal.core.model import Bury, Done, Fate, Lease, Outcome, Release, Retry
from shoal.core.redact import shown_url
from shoal.core.secrets import hidden
from shoal.worker.prefetch import LeaseKey, host_of, key_of
from shoal.worker.telemetry.observer import Observer

Send = Callable[[Event], None]


class EventReporter(Observer):
    """Sends events from a level on."""

    def __init__(self, send: Send, level: int) -> None:
        self._send, self._level = send, level
        self._away_since: float | None = None
        self._began: dict[LeaseKey, float] = {}  # tasks in progress

    def report(self, level: int, name: str, **fields: Any) -> None:
        """Send an event."""
        if level >= self._level:
            self._send(Event(at=time.time(), level=level, name=name, fields=fields))

    def forward(self, event: Event) -> None:
        """Send an event from Python's own logging."""
        if event.name == QUEUE_AWAY:
            self._mark_away()
        elif event.name == QUEUE_BACK:
            self._away_since = None  # it is reported once
        self._send(event)

    def on_claim(self) -> None:
        if self._away_since is not None:
            away = round(time.monotonic() - self._away_since, 3)
            self._away_since = None
            self.report(Level.INFO, QUEUE_BACK, away_seconds=away)

    def on_begin(self, lease: Lease) -> None:
        self._began[key_of(lease)] = time.monotonic()
        if self._level <= Level.INFO:
            self.report(Level.INFO, TASK_BEGUN, **_describe(lease))

    def on_queue_error(self, verb: str, error: QueueError) -> None:
        self._mark_away()
        name = CLAIM_FAILED if verb == "claim" else SETTLE_FAILED
        self.report(Level.WARNING, name, error=type(error).__name__, message=str(error))

    def on_settle(self, outcome: Outcome, fate: Fate, began: float, ended: float) -> None:
        start = self._began.pop(key_of(outcome.lease), None)
        took = {} if start is None else {"seconds": round(began - start, 3)}
        if fate is Fate.STALE:
            kind = type(outcome).__name__.lower()
            self.report(Level.INFO, RESULT_REFUSED, **_describe(outcome.lease), outcome=kind, **took)
            return
        match outcome:
            case Retry() | Bury():
                self._report_failure(outcome, took)
            case Done() if self._level <= Level.INFO:
                counts = {
                    "items": len(outcome.items),
                    "rejected": len(outcome.rejects),
                    "follow": len(outcome.follow),
                }
                self.report(
                    Level.INFO, TASK_DONE, **_describe(outcome.lease), outcome="done", **took, **counts
                )
            case Release() if took and self._level <= Level.INFO:
                self.report(
                    Level.INFO,
                    TASK_RELEASED,
                    **_describe(outcome.lease),
                    outcome="release",
                    **took,
                    again_in=outcome.after.total_seconds(),
                    reason=outcome.reason,
                )
            case Done() | Release():
                pass

    def _mark_away(self) -> None:
        if self._away_since is None:
            self._away_since = time.monotonic()

    def _report_failure(self, outcome: Retry | Bury, took: dict[str, float]) -> None:
        kind, _, message = error_text(outcome.error).partition(": ")
        again = {"again_in": outcome.after.total_seconds()} if isinstance(outcome, Retry) else {}
        about = _describe(outcome.lease) | took
        verdict = "retry" if isinstance(outcome, Retry) else "bury"
        trace = {TRACEBACK: outcome.traceback} if outcome.traceback else {}
        self.report(
            Level.WARNING,
            TASK_FAILED,
            **about,
            error=kind,
            message=message,
            outcome=verdict,
            **again,
            **trace,
        )
        host = host_of(outcome.lease)
        if outcome.slow_host:
            self.report(Level.INFO, HOST_SLOWED, host=host, gap_seconds=outcome.slow_host.total_seconds())
        if outcome.pause_host:
            self.report(Level.INFO, HOST_PAUSED, host=host, seconds=outcome.pause_host.total_seconds())


def _describe(lease: Lease) -> dict[str, Any]:
    url = lease.task.url
    about = {"task": lease.task_id, "step": lease.task.step, "attempt": lease.attempt}
    return about | ({"url": shown_url(url)} if url else {})


class LogForwarder(logging.Handler):
    """Forwards the records of Python's own logging: from steps, from libraries, from Shoal itself."""

    def __init__(self, send: Send, level: int) -> None:
        super().__init__(level)
        self._send, self._loop = send, asyncio.get_running_loop()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            # A step may run in a thread, and the channel belongs to the loop.
            self._loop.call_soon_threadsafe(self._send, self._event(record))
        except Exception:
            # A message that cannot be formatted, or a loop that has ended, must not fail the step.
            self.handleError(record)

    def _event(self, record: logging.LogRecord) -> Event:
        fields = {"logger": record.name, "message": hidden(self.format(record))}
        return Event(at=record.created, level=record.levelno, name=event_of(record), fields=fields)


def forward_logs(send: Send, level: int) -> None:
    """Forward the records of Python's own logging in this process from now on, from a level on."""
    # The supervisor passes them to earlier handlers, such as those of the command line that this process was
    # forked from; else every record would be shown twice.
    logging.getLogger("shoal").handlers.clear()
    root = logging.getLogger()
    root.addHandler(LogForwarder(send, level))
    root.setLevel(min(level, logging.WARNING))
