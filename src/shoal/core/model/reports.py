"""What a queue reports: counts, results, dead letters, hosts, workers, tasks, notes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from shoal.core.model.work import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Number of tasks by state, and of the items they yielded."""

    pending: int = 0
    delayed: int = 0
    leased: int = 0
    completed: int = 0
    dead: int = 0
    expired: int = 0
    dropped: int = 0
    items: int = 0
    rejected: int = 0

    @property
    def remaining(self) -> int:
        """Tasks that are still to be worked on."""
        return self.pending + self.delayed + self.leased

    @property
    def tasks(self) -> int:
        """All tasks ever enqueued."""
        return self.remaining + self.completed + self.dead + self.expired + self.dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats(Counts):
    """The counts of a run: total, by step and by partition."""

    steps: Mapping[str, Counts] = field(default_factory=dict)
    partitions: Mapping[str, Counts] = field(default_factory=dict)
    lost: int = 0  # tasks that the store no longer has and has given up; no other count has them


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredItem:
    """One record that a step yielded."""

    id: int
    task_id: str
    url: str | None
    step: str
    data: Any
    stored_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReject:
    """One record that was rejected, with the reason."""

    id: int
    task_id: str
    url: str | None
    step: str
    data: Any
    reason: str
    stored_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One failed attempt of a task."""

    attempt: int
    worker_id: str
    error: str
    ended_at: datetime
    traceback: str = ""  # the frames of the user's code

    @classmethod
    def stored(cls, attempt: int, worker_id: str, text: str, ended_at: datetime) -> "Attempt":
        """Return an attempt from its stored text, see `core/failures.py`."""
        error, _, traceback = text.partition("\n")
        return cls(attempt=attempt, worker_id=worker_id, error=error, ended_at=ended_at, traceback=traceback)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A task that was buried, with its last error and the history of its attempts."""

    id: str
    task: Task
    attempts: int
    error: str
    history: Sequence[Attempt]
    buried_at: datetime
    cursor: str = field(default="", compare=False)  # pass it as `after` for the rows behind this one

    @property
    def traceback(self) -> str:
        """The traceback of the last attempt, empty if no code of the user's was running."""
        # Edits are in the history as attempt 0.
        return next((entry.traceback for entry in reversed(self.history) if entry.attempt), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadFilter:
    """Selects the dead letters that meet every given condition."""

    step: str | None = None
    partition: str | None = None
    host: str | None = None  # on any port, unless it has one
    error: str | None = None  # a part of the error's text, case-sensitive
    buried_before: datetime | None = None
    buried_after: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredTask:
    """A task whose time to live ran out before it was done."""

    id: str
    task: Task
    expired_at: datetime
    cursor: str = field(default="", compare=False)  # pass it as `after` for the rows behind this one


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStatus:
    """Rate limits and counts of a host; the counts are of one run if one was given."""

    host: str
    counts: Counts
    delay: timedelta | None
    paused_for: timedelta | None
    cursor: str = field(default="", compare=False)  # pass it as `after` for the rows behind this one


class WorkerState(StrEnum):
    """The state of a worker, as its heartbeats report it; of a launcher and a coordinator, too."""

    RUNNING = "running"
    FROZEN = "frozen"  # its event loop does not run, though no step may block it
    ENDED = "ended"
    DIED = "died"
    LAUNCHER = "launcher"  # held the lock of a scraper in earlier versions
    FILLING = "filling"  # a coordinator that enqueues
    WAITING = "waiting"  # a coordinator whose workers have tasks left
    FINISHED = "finished"  # a coordinator whose run is done
    # In reports only: its heartbeats are missing, for some time or for long.
    LATE = "late"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """A worker, from its last heartbeat and its settlements."""

    worker_id: str
    run_id: str
    state: str
    info: Mapping[str, Any]
    last_beat: timedelta  # how long ago
    leased: int
    completed: int
    failed: int
    items: int

    @property
    def is_coordinator(self) -> bool:
        """Whether it is the coordinator of a cluster, which enqueues and claims nothing."""
        return "role" in self.info


class TaskState(StrEnum):
    """The state of a task; the names are those of `Counts`."""

    PENDING = "pending"
    DELAYED = "delayed"
    LEASED = "leased"
    COMPLETED = "completed"
    DEAD = "dead"
    EXPIRED = "expired"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """The current state of a task, and the worker that holds it.

    `since` is the time of the claim or of the end, if the store knows it. `attempt` is set while the task may
    be retried, and when it is dead. For a completed task, `task` may be None, since stores need not keep it;
    `url` and `items` show what it yielded.
    """

    id: str
    step: str
    state: TaskState
    url: str | None = None
    task: Task | None = None
    worker_id: str | None = None
    since: datetime | None = None
    attempt: int = 0
    items: int | None = None
    cursor: str = field(default="", compare=False)  # pass it as `after` for the rows behind this one


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A value that the whole fleet shares; `stamp` changes with every write, and a swap compares it."""

    value: bytes
    stamp: int
    age: timedelta  # since it was written, by the store's clock


@dataclass(frozen=True, slots=True)
class Durability:
    """What a crash of the store can cost with its present settings."""

    safe: bool  # a crash of the store or of its machine loses nothing
    text: str  # one or two sentences for the user
