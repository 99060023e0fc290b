"""The contract of every queue backend; `tests/conformance` tests each backend against it."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

from shoal.core.errors import InvalidTask
from shoal.core.model import (
    MINUTE,
    NOTHING,
    ZERO,
    DeadFilter,
    DeadLetter,
    Durability,
    EnqueueReport,
    ExpiredTask,
    Fate,
    Grant,
    HostStatus,
    Lease,
    Note,
    Outcome,
    Run,
    RunSettings,
    Stats,
    StoredItem,
    StoredReject,
    Task,
    TaskState,
    TaskStatus,
    WorkerStatus,
)

Tasks = Iterable[Task] | AsyncIterable[Task]
OnInvalid = Callable[[int, InvalidTask], None]
Fence = tuple[str, str, int]  # topic, key and stamp of a note
DEFAULT_LEASE = 5 * MINUTE
GONE = Note(value=b"", stamp=0, age=ZERO)  # the result of a swap that removed a note; no note has this stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterEdit:
    """A dead letter as it was read, its new task, and who changed it; `note` is the entry in its history."""

    letter: DeadLetter
    task: Task
    by: str
    note: str


class EditFate(Enum):
    """The result of an edit: only EDITED means that something changed."""

    EDITED = "edited"
    DUPLICATE = "duplicate"  # the run already has a task with the new key
    CHANGED = "changed"  # it was replayed, dropped or edited since it was read


@dataclass(frozen=True, slots=True)
class StoreSize:
    """The size of a queue's store in bytes, and what was measured."""

    bytes: int
    text: str


class RunLimits(TypedDict, total=False):
    """The settings of a run that may be changed: see `RunSettings`."""

    host_delay: timedelta
    per_host: int
    max_attempts: int


class Queue(ABC):
    """Stores tasks, and their results.

    Every verb is safe to repeat: when a connection is lost, a backend repeats the call until it gets the
    result, and the call takes effect once.
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @abstractmethod
    async def close(self) -> None:
        """Close every connection, thread and file."""

    @abstractmethod
    async def migrate(self) -> int:
        """Migrate the store to this Shoal's schema and return its version; may run twice and in parallel."""

    @abstractmethod
    async def durability(self) -> Durability:
        """Return what a crash of the store can cost with its present settings."""

    @abstractmethod
    async def size(self) -> StoreSize:
        """Return the size of the store. It is cheap, whatever the queue holds."""

    # Runs

    @abstractmethod
    async def start_run(
        self, scraper: str, *, settings: RunSettings = RunSettings(), run_id: str | None = None
    ) -> Run:
        """Create a run, or return the one that has this id.

        Raises RunConflict if that run belongs to another scraper.
        """

    @abstractmethod
    async def run(self, run_id: str) -> Run:
        """Return one run; raises UnknownRun."""

    @abstractmethod
    async def runs(self) -> Sequence[Run]:
        """Return all runs, the newest first."""

    @abstractmethod
    async def pause(self, run_id: str) -> Run:
        """Lease no task of the run until it is resumed. Live leases can still be settled.

        Raises RunConflict if the run has ended.
        """

    @abstractmethod
    async def resume(self, run_id: str) -> Run:
        """Continue a paused or partial run; raises RunConflict if it was cancelled."""

    @abstractmethod
    async def finish(self, run_id: str, reason: str) -> Run:
        """End a run although tasks are left: its state becomes partial, with this reason.

        No task is leased until the run is resumed. Live leases can still be settled. A run that has ended
        does not change, so that many workers may call this at once.
        """

    @abstractmethod
    async def cancel(self, run_id: str) -> Run:
        """Lease no task of the run ever again. Live leases can still be settled; nothing is deleted."""

    @abstractmethod
    async def change_run(self, run_id: str, **limits: Unpack[RunLimits]) -> Run:
        """Change the rate limits and the attempts of a run.

        The next claim and settlement obey, and a host that waits for the old delay waits for the new one.
        """

    @abstractmethod
    async def purge(self, run_id: str) -> None:
        """Delete a run with all its tasks, items and dead letters.

        The run is unknown at once; its data is deleted in batches, so that other calls do not wait long.
        """

    # Work

    @abstractmethod
    async def enqueue(
        self, run_id: str, tasks: Tasks, *, on_invalid: OnInvalid | None = None
    ) -> EnqueueReport:
        """Add a stream of tasks, each key of a (run, step) once.

        With `RunSettings.dedup`, a key that another run of the scraper queued recently is skipped as known.
        An invalid task is counted and passed to `on_invalid` with its position; the others are added.
        """

    @abstractmethod
    async def forget(self, scraper: str) -> int:
        """Forget what runs with `dedup` of this scraper queued, and return the number of tasks."""

    @abstractmethod
    async def claim(
        self,
        worker_id: str,
        *,
        run_id: str,
        limit: int = 50,
        lease: timedelta = DEFAULT_LEASE,
        steps: Sequence[str] | None = None,
        partitions: Sequence[str] | None = None,
        fence: Fence | None = None,
    ) -> Grant:
        """Lease up to `limit` tasks whose hosts may get a request now.

        With a fence, nothing is leased unless that note still has that stamp: `Grant.outdated`.
        """

    @abstractmethod
    async def settle(self, outcomes: Sequence[Outcome]) -> list[Fate]:
        """Apply the outcomes, each atomically; the fates are in the same order.

        A Retry without an attempt left becomes a dead letter. Raises InvalidItem or InvalidTask, before
        anything is changed, if an outcome contains something that cannot be stored.
        """

    @abstractmethod
    async def extend(self, leases: Sequence[Lease], *, lease: timedelta = DEFAULT_LEASE) -> list[Fate]:
        """Set the deadlines of live leases to `lease` from now."""

    @abstractmethod
    async def reclaim(self) -> int:
        """End the leases whose deadline has passed, and return how many.

        A task without an attempt left becomes a dead letter, the others become pending. Tasks whose delay is
        over become pending, and tasks whose time to live is over expire. Any worker may call it.
        """

    @abstractmethod
    async def abandon(self, worker_id: str, *, once: Collection[str] = (), reason: str = "") -> int:
        """End every lease of a worker that is known to be dead, in all runs, and return how many.

        Each ends like a Release by its worker: the attempt does not count, and a later outcome of the worker
        is STALE. Tasks of the steps `once`, which are delivered at most once, end like a Bury with this
        reason.
        """

    # Reports

    @abstractmethod
    async def stats(self, run_id: str) -> Stats:
        """Return the counts of a run, exact as of the last claim or reclaim."""

    @abstractmethod
    def items(self, run_id: str, *, step: str | None = None, after: int = 0) -> AsyncIterator[StoredItem]:
        """Stream the items in the order of their ids, from the one after `after`."""

    @abstractmethod
    def rejects(self, run_id: str, *, step: str | None = None, after: int = 0) -> AsyncIterator[StoredReject]:
        """Stream the rejects in the order of their ids, from the one after `after`."""

    @abstractmethod
    def dead(
        self,
        run_id: str,
        where: DeadFilter = DeadFilter(),
        *,
        ids: Sequence[str] | None = None,
        after: str | None = None,
    ) -> AsyncIterator[DeadLetter]:
        """Stream the dead letters, the oldest first, from the one after the cursor `after`.

        With `ids`, only those, each looked up directly. Here and below, a cursor is the `cursor` of a row of
        the same list; it stays valid when that row has left the list. Raises InvalidSetting for other texts.
        """

    @abstractmethod
    def expired(self, run_id: str, *, after: str | None = None) -> AsyncIterator[ExpiredTask]:
        """Stream the tasks whose time to live is over, from the one after the cursor `after`."""

    @abstractmethod
    def tasks(
        self,
        run_id: str,
        *,
        step: str | None = None,
        states: Collection[TaskState] | None = None,
        keys: Sequence[str] | None = None,
        after: str | None = None,
    ) -> AsyncIterator[TaskStatus]:
        """Stream the tasks of a run in their present state, from the one after the cursor `after`.

        `keys` names tasks by their key, else their URL, else their payload, in any step; it cannot be
        combined with `after`.
        """

    @abstractmethod
    async def entered(self, run_id: str, ids: Collection[str]) -> set[str]:
        """Return the subset of these ids whose tasks have ever entered the run."""

    @abstractmethod
    async def replay(
        self, run_id: str, ids: Sequence[str] | None = None, *, where: DeadFilter = DeadFilter()
    ) -> int:
        """Make dead letters pending again with their attempts reset, and return how many."""

    @abstractmethod
    async def drop(
        self, run_id: str, ids: Sequence[str] | None = None, *, where: DeadFilter = DeadFilter()
    ) -> int:
        """Drop dead letters for good, and return how many. Their keys cannot be queued again."""

    @abstractmethod
    async def edit(self, run_id: str, edits: Sequence[LetterEdit]) -> list[EditFate]:
        """Replace the tasks of dead letters, each atomically; the fates are in the same order.

        A letter keeps its place in the list, its attempts and its history, which gets an entry of attempt 0.
        Its id and key are those of the new task; the old key may be queued again. Raises InvalidTask before
        anything is changed.
        """

    # Hosts and workers

    @abstractmethod
    def hosts(self, run_id: str | None = None, *, after: str | None = None) -> AsyncIterator[HostStatus]:
        """Stream the hosts, of one run or of all, from the one after the cursor `after`."""

    @abstractmethod
    async def pause_host(self, host: str, duration: timedelta) -> None:
        """Send no request to a host for a while, in any run; zero ends a pause."""

    @abstractmethod
    async def slow_host(self, host: str, delay: timedelta) -> None:
        """Keep at least this gap between two starts on a host, in any run; zero removes it."""

    @abstractmethod
    async def beat(
        self, worker_id: str, *, run_id: str, state: str = "running", info: Mapping[str, Any] = NOTHING
    ) -> None:
        """Store a heartbeat of a worker: its state, and further values to show."""

    @abstractmethod
    async def workers(self, run_id: str | None = None) -> Sequence[WorkerStatus]:
        """Return the workers that have ever sent a heartbeat, of one run or of all."""

    # Notes

    @abstractmethod
    async def notes(self, topic: str, keys: Sequence[str] | None = None) -> dict[str, Note]:
        """Return the notes of a topic that have not expired: those with these keys, or all."""

    @abstractmethod
    async def write_notes(
        self, topic: str, values: Mapping[str, bytes | None], *, ttl: timedelta | None = None
    ) -> None:
        """Write notes unconditionally; None removes one. Raises InvalidNote before anything is changed."""

    @abstractmethod
    async def swap_note(
        self,
        topic: str,
        key: str,
        value: bytes | None,
        *,
        stamp: int | None,
        ttl: timedelta | None = None,
    ) -> Note | None:
        """Write or remove a note if it still has this stamp (None: if there is none).

        Returns the new note, `GONE` for a removed one, or None if the stamp has changed.
        """

    @abstractmethod
    async def trim_notes(self, topic: str, *, max_bytes: int) -> int:
        """Remove the oldest notes until the values have at most `max_bytes` in total; return how many."""
