"""The vocabulary: tasks, runs, leases and outcomes first, then what a queue reports of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import replace

from shoal.core.request_options import RequestOptions

NOTHING: Mapping[str, Any] = MappingProxyType({})
ZERO = timedelta(0)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)

SEED_STEP = "main"  # the step of a task that names none
INVALID_SEED = "invalid-seed"  # the step of the placeholder task for a seed that could not be queued
LOWEST_PRIORITY, HIGHEST_PRIORITY = 0, 9
# In the payload of a task that downloads a file. It may carry an item, so it is never left out because an
# earlier run knows its key, and never expires.
DOWNLOAD_KEY = "$download"


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One unit of work: a URL to fetch, or a payload without one. `step` is a step or its name."""

    url: str | None = None
    step: str = SEED_STEP
    payload: Mapping[str, Any] = NOTHING
    key: str | None = None
    partition: str = ""
    priority: int = LOWEST_PRIORITY
    ttl: timedelta | None = None
    delay: timedelta = ZERO
    depth: int = 0
    request: RequestOptions | None = None  # for more than a plain GET

    def __post_init__(self) -> None:
        # A step itself stands for its name; anything else is refused when the task is queued.
        given: Any = self.step
        if not isinstance(given, str) and isinstance(name := getattr(given, "name", None), str):
            msgspec.structs.force_setattr(self, "step", name)

    def for_step(self, name: str) -> "Task":
        """Return the same task for another step."""
        return replace(self, step=name)


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a run that the queue enforces."""

    host_delay: timedelta = SECOND
    per_host: int = 4
    max_attempts: int = 3
    ttl: timedelta | None = None
    dedup: timedelta | None = None  # how long other runs of the scraper skip what this one queues
    dedup_steps: tuple[str, ...] = ()  # only for these steps; for all if empty


class RunState(StrEnum):
    """The state of a run."""

    RUNNING = "running"
    PAUSED = "paused"
    PARTIAL = "partial"  # ended with tasks left, or with links cut; for a reason
    CANCELLED = "cancelled"  # for good

    @property
    def has_ended(self) -> bool:
        """Whether no task of the run is handed out, even if some are left."""
        return self in (RunState.PARTIAL, RunState.CANCELLED)


class ReportedState(StrEnum):
    """The state of a run as reports show it: what is stored, or what follows from its tasks and workers."""

    RUNNING = "running"
    PAUSED = "paused"
    PARTIAL = "partial"  # also one without tasks left whose links were cut
    CANCELLED = "cancelled"
    FINISHED = "finished"  # no task is left
    WAITING = "waiting"  # no worker has begun
    STOPPED = "stopped"  # tasks or seeds are left, and no worker is running


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of a scraper; owns its tasks and settings."""

    id: str
    scraper: str
    settings: RunSettings
    state: RunState
    started_at: datetime
    reason: str = ""  # why it ended with tasks left


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueReport:
    """The result of `enqueue`.

    A duplicate task is already in the run; a known one was queued by another run of the scraper: see `dedup`.
    """

    added: int = 0
    duplicate: int = 0
    invalid: int = 0
    known: int = 0

    def __add__(self, other: "EnqueueReport") -> "EnqueueReport":
        return EnqueueReport(
            added=self.added + other.added,
            duplicate=self.duplicate + other.duplicate,
            invalid=self.invalid + other.invalid,
            known=self.known + other.known,
        )


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """A claimed task that a worker holds. All times are durations from the claim on.

    `host_slowdown` is the slowdown of its host at the time of the claim, usually zero.
    """

    run_id: str
    task_id: str
    token: int
    task: Task
    attempt: int
    start_in: timedelta
    deadline_in: timedelta
    host_slowdown: timedelta = ZERO


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a claim.

    `next_due` is the time until a waiting task may become claimable, None when none is known;
    other workers and producers may be quicker, so poll about once a second anyway.
    `drained` says that the run has no pending, delayed or leased task left, or has ended without them.
    `claimed_at` is the store's time from which the leases' durations count; from many of them a worker can
    tell how late each reply arrived, and start on time. None if nothing could be handed out.
    `outdated` says that the note that fenced the claim has changed, so nothing was handed out.
    """

    leases: Sequence[Lease] = ()
    next_due: timedelta | None = None
    drained: bool = False
    claimed_at: datetime | None = None
    outdated: bool = False


class Reject(msgspec.Struct, frozen=True, kw_only=True):
    """An item that failed validation or a filter, and why."""

    data: Any
    reason: str


class Done(msgspec.Struct, frozen=True):
    """The task is completed: its items, rejects and follow-up tasks are stored with it, or nothing is.

    For every outcome: `asked=False` says that no request was sent, so another task may use its start.
    """

    lease: Lease
    items: Sequence[Any] = ()
    follow: Sequence[Task] = ()
    rejects: Sequence[Reject] = ()
    pause_host: timedelta | None = None
    slow_host: timedelta | None = None
    asked: bool = True


class Retry(msgspec.Struct, frozen=True):
    """The attempt failed; the task is retried `after` a delay if attempts are left."""

    lease: Lease
    error: str | BaseException
    after: timedelta = ZERO
    pause_host: timedelta | None = None
    slow_host: timedelta | None = None
    asked: bool = True
    traceback: str = ""  # of the step, for logs: only the one of the last attempt is stored


class Bury(msgspec.Struct, frozen=True):
    """The task can never succeed: it becomes a dead letter."""

    lease: Lease
    error: str | BaseException
    pause_host: timedelta | None = None
    slow_host: timedelta | None = None
    asked: bool = True
    traceback: str = ""  # of the step; stored with a dead letter


class Release(msgspec.Struct, frozen=True):
    """The task was not tried: it returns to the queue with its attempt, due `after` a delay."""

    lease: Lease
    after: timedelta = ZERO
    slow_host: timedelta | None = None
    asked: bool = True
    reason: str = ""  # for the log


Outcome = Done | Retry | Bury | Release


class Fate(Enum):
    """The result of settling or extending a lease: STALE means that nothing changed."""

    ACCEPTED = "accepted"
    STALE = "stale"


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


StepGroup = tuple[str, str]  # a step and a partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats(Counts):
    """The counts of a run: total, by step, by partition, and of both what is left."""

    steps: Mapping[str, Counts] = field(default_factory=dict)
    partitions: Mapping[str, Counts] = field(default_factory=dict)
    left: Mapping[StepGroup, int] = field(default_factory=dict)  # tasks left, of the groups that have any
    lost: int = 0  # tasks that the store no longer has and has given up; no other count has them


class StoredItem(msgspec.Struct, frozen=True, kw_only=True):
    """One record that a step yielded."""

    id: int
    task_id: str
    url: str | None
    step: str
    data: Any
    stored_at: datetime


class StoredReject(msgspec.Struct, frozen=True, kw_only=True):
    """One record that was rejected, with the reason."""

    id: int
    task_id: str
    url: str | None
    step: str
    data: Any
    reason: str
    stored_at: datetime


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
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
    """The state of a worker, as its heartbeats report it; of a coordinator, too."""

    RUNNING = "running"
    FROZEN = "frozen"  # its event loop does not run, though no step may block it
    ENDED = "ended"
    DIED = "died"
    FILLING = "filling"  # a coordinator that enqueues
    WAITING = "waiting"  # a coordinator whose workers have tasks left
    FINISHED = "finished"  # a coordinator whose run is done
    # In reports only: its heartbeats are missing, for some time or for long.
    LATE = "late"
    GONE = "gone"


class WorkerStatus(msgspec.Struct, frozen=True, kw_only=True):
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


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A value that the whole fleet shares; `stamp` changes with every write, and a swap compares it."""

    value: bytes
    stamp: int
    age: timedelta  # since it was written, by the store's clock


class Durability(msgspec.Struct, frozen=True):
    """What a crash of the store can cost with its present settings."""

    safe: bool  # a crash of the store or of its machine loses nothing
    text: str  # one or two sentences for the user
