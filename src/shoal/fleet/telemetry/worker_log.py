"""Log events of a pool's workers: started, restarted, ended, died, given up."""

from collections.abc import Callable
from typing import Any, NamedTuple

from shoal.core.events import (
    DIED,
    ENDED,
    GIVEN_UP,
    LOG,
    LOOP_BLOCKED,
    QUEUE_AWAY,
    RESTARTED,
    STARTED,
    STARTS_LATE,
    STOPPING,
    Event,
    Level,
    level_name,
)
from shoal.core.failures import TRACEBACK
from shoal.fleet.telemetry.logs import LogDirectory
from shoal.worker.ipc.protocol import ExitReason
from shoal.worker.process.supervisor import WorkerExit

SHARED_LOG_INTERVAL_SECONDS = 60.0  # of events that all workers of a pool report at once
STOPS = {1: "finishing", 2: "handing back"}


class Warned(NamedTuple):
    """A warning or an error that a worker has logged, as commands with `--json` report it."""

    message: str  # with its traceback, if there is one
    level: str
    event: str
    worker: str


class WorkerLifecycleLog:
    """Logs when workers start and end, in the fleet's log and in each worker's own."""

    def __init__(
        self,
        logs: LogDirectory,
        run_id: str,
        on_output: Callable[[str], None],
        on_warning: Callable[[Warned], None] | None = None,
    ) -> None:
        """Without `on_warning`, the lines of a warning are output."""
        # With logs on a stream, the output is already there as a log line.
        self.on_output = on_output if not logs.is_stream else lambda line: None
        self.on_warning = on_warning if on_warning and not logs.is_stream else self._output_lines
        self.logs, self.run_id = logs, run_id
        self.restarts = 0
        self._used_slots: set[int] = set()
        self._shown_at = {QUEUE_AWAY: 0.0, STARTS_LATE: 0.0}  # when such a message of a worker was last shown

    def entry(self, number: int, worker_id: str) -> "WorkerLogEntry":
        """Return the log of a new worker in a slot; it may replace one that died."""
        is_new = number not in self._used_slots
        self._used_slots.add(number)
        return WorkerLogEntry(self, number, worker_id, STARTED if is_new else RESTARTED)

    def is_shown(self, event: Event) -> bool:
        """Return whether to show a worker's warning; what concerns all is shown once a minute per pool."""
        if event.name not in self._shown_at:
            return event.name in (LOG, LOOP_BLOCKED)
        if event.at - self._shown_at[event.name] < SHARED_LOG_INTERVAL_SECONDS:
            return False
        self._shown_at[event.name] = event.at
        return True

    def _output_lines(self, warned: "Warned") -> None:
        for line in warned.message.split("\n"):
            self.on_output(line)

    def log_stopping(self, times: int, in_hand: int) -> None:
        """Log that the pool was told to stop."""
        how = STOPS.get(times, "killing")
        self.logs.fleet.log(Level.INFO, STOPPING, run=self.run_id, how=how, in_hand=in_hand)

    def log_given_up(self, number: int, last: WorkerExit, reason: str | None = None) -> None:
        """Log that a slot gets no new worker and why, with the last output lines of its worker."""
        facts: dict[str, Any] = {"run": self.run_id, "place": number + 1, "message": last.message}
        facts |= {"reason": reason} if reason else {}
        self.logs.fleet.log(Level.ERROR, GIVEN_UP, **facts, last_lines=last.last_lines)


class WorkerLogEntry:
    """Writes the log events of one worker."""

    def __init__(self, pool_log: WorkerLifecycleLog, number: int, worker_id: str, start_event: str) -> None:
        self._pool_log, self._start_event, self._slot = pool_log, start_event, number + 1
        self._fields = {"run": pool_log.run_id, "worker": worker_id}
        self._fleet, self._own = pool_log.logs.fleet, pool_log.logs.worker(self._slot)

    def log_start(self) -> None:
        """Log that the worker starts."""
        self._log(Level.INFO, self._start_event)

    def log_exit(self, ending: WorkerExit) -> WorkerExit:
        """Log how the worker ended, and return its exit."""
        facts = {"reason": ending.reason, "pages": ending.tally.pages, "items": ending.tally.items}
        if ending.reason in (ExitReason.DIED, ExitReason.FAILED):
            self._log(Level.ERROR, DIED, message=ending.message, blamed=len(ending.blamed), **facts)
        else:
            self._log(Level.INFO, ENDED, **facts)
        return ending

    def log_output(self, line: str) -> None:
        """Log a line that the worker printed, and show it."""
        self._own.log_output(line, **self._fields)
        self._pool_log.on_output(line)

    def log_event(self, event: Event) -> None:
        """Log an event sent by the worker, and show a warning."""
        self._own.write(event, **self._fields)
        if event.level >= Level.WARNING and self._pool_log.is_shown(event):
            shown = (str(event.fields.get(name, "")) for name in ("message", TRACEBACK))
            text, level = "\n".join(shown).rstrip(), level_name(event.level)
            self._pool_log.on_warning(Warned(text, level, event.name, self._fields["worker"]))

    def _log(self, level: Level, name: str, **facts: Any) -> None:
        for writer in (self._own,) if self._pool_log.logs.is_stream else (self._fleet, self._own):
            writer.log(level, name, **self._fields, place=self._slot, **facts)
