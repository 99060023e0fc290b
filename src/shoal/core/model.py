"""The words of the design as frozen dataclasses; everything else in Shoal is written in them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any

from shoal.core.ask import Ask
from shoal.core.errors import printable

NOTHING: Mapping[str, Any] = MappingProxyType({})
ZERO = timedelta(0)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)

LOWEST_PRIORITY, HIGHEST_PRIORITY = 0, 9
MAX_ERROR = 2_000  # characters of an error's text that are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One unit of work: a URL to fetch, or a payload without one."""

    url: str | None = None
    step: str = "main"
    payload: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    key: str | None = None
    partition: str = ""
    priority: int = LOWEST_PRIORITY
    ttl: timedelta | None = None
    delay: timedelta = ZERO
    depth: int = 0
    ask: Ask | None = None  # for more than a plain GET


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What the queue must know of a run."""

    host_delay: timedelta = SECOND
    per_host: int = 4
    max_attempts: int = 3
    ttl: timedelta | None = None
    dedup: timedelta | None = None  # how long other runs of the scraper leave out what this one queues
    dedup_steps: tuple[str, ...] = ()  # for these steps; for all if none is named


class RunState(StrEnum):
    """What may happen to the tasks of a run."""

    RUNNING = "running"
    PAUSED = "paused"
    PARTIAL = "partial"  # ended with tasks left, for a reason; it can be resumed
    CANCELLED = "cancelled"  # for good

    @property
    def has_ended(self) -> bool:
        """Whether no task of the run is handed out unless somebody resumes it, whatever is left."""
        return self in (RunState.PARTIAL, RunState.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution of a scraper: the owner of its tasks and settings."""

    id: str
    scraper: str
    settings: RunSettings
    state: RunState
    started_at: datetime
    reason: str = ""  # why it ended with tasks left


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueReport:
    """What became of the tasks handed to `enqueue`.

    A duplicate is in the run already; a known one was queued by another run of the scraper: see `dedup`.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A claimed task in a worker's hands. All times are durations, counted from the claim.

    `host_slowdown` is what outcomes had slowed its host to at the claim, zero for most.
    """

    run_id: str
    task_id: str
    token: int
    task: Task
    attempt: int
    start_in: timedelta
    deadline_in: timedelta
    host_slowdown: timedelta = ZERO


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The answer to a claim.

    `next_due` is how long until time alone may make something claimable, None when nothing is known to come;
    other workers and producers may be quicker, so look again after a second or so whatever it says.
    `drained` says that the run has no pending, delayed or leased task left, or has ended without them.
    `claimed_at` is the store's time from which the leases' durations count; a worker that compares many of
    them knows how late each answer came, and starts on time. None where nothing could be handed out.
    `outdated` says that the note which fenced the claim has changed, so that nothing was handed out.
    """

    leases: Sequence[Lease] = ()
    next_due: timedelta | None = None
    drained: bool = False
    claimed_at: datetime | None = None
    outdated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """An item that failed validation or a filter, and why."""

    data: Any
    reason: str


@dataclass(frozen=True, slots=True)
class Done:
    """The task is completed: its items, rejects and follow-up tasks land with it, or none does.

    Of every outcome: `asked=False` says that the host was not asked, so that another may have its start.
    """

    lease: Lease
    items: Sequence[Any] = ()
    follow: Sequence[Task] = ()
    rejects: Sequence[Reject] = ()
    pause_host: timedelta | None = None
    slow_host: timedelta | None = None
    asked: bool = True


@dataclass(frozen=True, slots=True)
class Retry:
    """The attempt failed; the task is to be tried again `after` a while, if attempts are left."""

    lease: Lease
    error: str | BaseException
    after: timedelta = ZERO
    pause_host: timedelta | None = None
    slow_host: timedelta | None = None
    asked: bool = True


@dataclass(frozen=True, slots=True)
class Bury:
    """The task can never succeed: it becomes a dead letter."""

    lease: Lease
    error: str | BaseException
    pause_host: timedelta | None = None
    slow_host: timedelta | None = None
    asked: bool = True


@dataclass(frozen=True, slots=True)
class Release:
    """The task was not tried: it goes back, to be handed out `after` a while; its attempt is given back."""

    lease: Lease
    after: timedelta = ZERO
    asked: bool = True


Outcome = Done | Retry | Bury | Release


class Fate(Enum):
    """What became of an outcome or an extension: STALE means that it changed nothing."""

    ACCEPTED = "accepted"
    STALE = "stale"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many tasks are in which state, and what they yielded."""

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
        """All tasks that ever entered."""
        return self.remaining + self.completed + self.dead + self.expired + self.dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats(Counts):
    """The counts of a run, whole and split by step and by partition."""

    steps: Mapping[str, Counts] = field(default_factory=dict)
    partitions: Mapping[str, Counts] = field(default_factory=dict)


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
    """One record that was refused, kept with the reason."""

    id: int
    task_id: str
    url: str | None
    step: str
    data: Any
    reason: str
    stored_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One failed try of a task."""

    attempt: int
    worker_id: str
    error: str
    ended_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A task that was buried, with its last error and the history of its attempts."""

    id: str
    task: Task
    attempts: int
    error: str
    history: Sequence[Attempt]
    buried_at: datetime
    place: str = field(default="", compare=False)  # in its list; `after` takes it, for the rows behind


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadFilter:
    """Which dead letters are meant: those that meet every condition given."""

    step: str | None = None
    partition: str | None = None
    host: str | None = None
    error: str | None = None  # a part of the error's text, case kept
    buried_before: datetime | None = None
    buried_after: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredTask:
    """A task whose time to live ran out before anyone finished it."""

    id: str
    task: Task
    expired_at: datetime
    place: str = field(default="", compare=False)  # in its list; `after` takes it, for the rows behind


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStatus:
    """How a host is being treated; counts are of one run when one was asked for."""

    host: str
    counts: Counts
    delay: timedelta | None
    paused_for: timedelta | None
    place: str = field(default="", compare=False)  # in its list; `after` takes it, for the rows behind


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """A worker as its last heartbeat and its settlements show it."""

    worker_id: str
    run_id: str
    state: str
    info: Mapping[str, Any]
    last_beat: timedelta  # how long ago
    leased: int
    completed: int
    failed: int
    items: int


class TaskState(StrEnum):
    """Where a task is; the names are those of `Counts`."""

    PENDING = "pending"
    DELAYED = "delayed"
    LEASED = "leased"
    COMPLETED = "completed"
    DEAD = "dead"
    EXPIRED = "expired"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """A task as it is now: where it is, and who holds it.

    `since` is when it was claimed, or when it ended, where the store knows. `attempt` counts while it may be
    tried again or is dead. Of a completed task `task` may be None, for its text need not be kept; `url` and
    `items` say what it yielded.
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
    place: str = field(default="", compare=False)  # in its list; `after` takes it, for the rows behind


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A value that the whole fleet shares; `stamp` changes with every write, and is what a swap compares."""

    value: bytes
    stamp: int
    age: timedelta  # since it was written, by the store's clock


def error_text(error: str | BaseException) -> str:
    """Return an error as one line that any store can keep: the class and the message."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    line = printable(" ".join(text.replace("\0", "").split()).removesuffix(":"))
    return line.encode(errors="replace").decode()[:MAX_ERROR]
