"""The contract that every queue backend keeps; `tests/conformance` holds each of them to it."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from shoal.core.errors import InvalidTask
from shoal.core.model import (
    MINUTE,
    NOTHING,
    ZERO,
    DeadFilter,
    DeadLetter,
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
GONE = Note(value=b"", stamp=0, age=ZERO)  # what a swap returns that removed a note; no note has this stamp


class Queue(ABC):
    """Where tasks wait, and where their results are kept.

    Every verb is safe to repeat: when a connection is lost, a backend repeats the call until it
    knows the answer, and what the call does is done once.
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
        """Give back every connection, thread and file."""

    @abstractmethod
    async def migrate(self) -> int:
        """Bring the store to this Shoal's schema and return its version; safe to run twice and by many."""

    @abstractmethod
    async def durability(self) -> str:
        """Say in a sentence or two what a crash of the store can cost, by its settings."""

    # Runs

    @abstractmethod
    async def start_run(
        self, scraper: str, *, settings: RunSettings = RunSettings(), run_id: str | None = None
    ) -> Run:
        """Make a run, or return the one that has this id.

        Raises RunConflict when that run belongs to another scraper.
        """

    @abstractmethod
    async def run(self, run_id: str) -> Run:
        """Return one run; raises UnknownRun."""

    @abstractmethod
    async def runs(self) -> Sequence[Run]:
        """Return all runs, the newest first."""

    @abstractmethod
    async def pause(self, run_id: str) -> Run:
        """Hand out no task of the run until it is resumed. What is leased may be settled.

        Raises RunConflict when the run has ended.
        """

    @abstractmethod
    async def resume(self, run_id: str) -> Run:
        """Let a paused or partial run go on; raises RunConflict when it was cancelled."""

    @abstractmethod
    async def finish(self, run_id: str, reason: str) -> Run:
        """End a run with the tasks that are left: it becomes partial, and keeps the reason.

        No task is handed out until the run is resumed. What is leased may be settled. A run that has ended
        stays as it is, so that many workers may call this at once.
        """

    @abstractmethod
    async def cancel(self, run_id: str) -> Run:
        """Never hand out a task of the run again. What is leased may be settled; nothing is deleted."""

    @abstractmethod
    async def purge(self, run_id: str) -> None:
        """Delete a run with all its tasks, items and dead letters."""

    # Work

    @abstractmethod
    async def enqueue(
        self, run_id: str, tasks: Tasks, *, on_invalid: OnInvalid | None = None
    ) -> EnqueueReport:
        """Stream tasks in, each key of a (run, step) once.

        With `RunSettings.dedup`, a key that another run of the scraper queued lately is left out as known.
        A task that cannot be queued is counted, handed to `on_invalid` with its position, and stops nothing.
        """

    @abstractmethod
    async def forget(self, scraper: str) -> int:
        """Forget what runs with `dedup` of this scraper queued, and return how many tasks were known."""

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
        """Lease up to `limit` tasks whose hosts may be asked now.

        With a fence, nothing is handed out unless that note still has that stamp: `Grant.outdated`.
        """

    @abstractmethod
    async def settle(self, outcomes: Sequence[Outcome]) -> list[Fate]:
        """Obey the outcomes, each whole or not at all; the fates come in the same order.

        A Retry that has no attempt left becomes a dead letter. Raises InvalidItem or InvalidTask,
        before anything is changed, when an outcome carries what cannot be stored.
        """

    @abstractmethod
    async def extend(self, leases: Sequence[Lease], *, lease: timedelta = DEFAULT_LEASE) -> list[Fate]:
        """Move the deadlines of live leases to `lease` from now."""

    @abstractmethod
    async def reclaim(self) -> int:
        """Take back the leases whose deadline has passed, and return how many.

        A task without an attempt left becomes a dead letter, the others go back to pending. Tasks whose
        delay is over become pending, and tasks whose time to live is over expire. Any worker may call it.
        """

    @abstractmethod
    async def abandon(self, worker_id: str, *, once: Collection[str] = (), reason: str = "") -> int:
        """End every lease of a worker that is known to be dead, and return how many.

        Each goes as by a Release of its holder, in whatever run it is: the attempt is given back, and what
        the worker may still say of it is STALE. Tasks of the steps `once`, which are tried once at most, go
        as by a Bury with this reason.
        """

    # Looking

    @abstractmethod
    async def stats(self, run_id: str) -> Stats:
        """Return the counts of a run, exact as of the last claim or reclaim."""

    @abstractmethod
    def items(self, run_id: str, *, step: str | None = None, after: int = 0) -> AsyncIterator[StoredItem]:
        """Stream the items in the order of their ids, from the one behind `after`."""

    @abstractmethod
    def rejects(self, run_id: str, *, step: str | None = None, after: int = 0) -> AsyncIterator[StoredReject]:
        """Stream the rejects in the order of their ids, from the one behind `after`."""

    @abstractmethod
    def dead(
        self,
        run_id: str,
        where: DeadFilter = DeadFilter(),
        *,
        ids: Sequence[str] | None = None,
        after: str | None = None,
    ) -> AsyncIterator[DeadLetter]:
        """Stream the dead letters, the oldest first, from the one behind the place `after`.

        With `ids`, only those, each found without a look at the others. Here and below, a place is what a row
        of the same list has as its `place`, and works when that row has left the list. InvalidSetting is
        raised for what no row ever had.
        """

    @abstractmethod
    def expired(self, run_id: str, *, after: str | None = None) -> AsyncIterator[ExpiredTask]:
        """Stream the tasks whose time to live ran out, from the one behind the place `after`."""

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
        """Stream the tasks of a run as they are now, from the one behind the place `after`.

        `keys` names tasks by their key, else their URL, else their payload, in whatever step they are; a list
        of those is read whole, without `after`.
        """

    @abstractmethod
    async def entered(self, run_id: str, ids: Collection[str]) -> set[str]:
        """Return those of these ids that are of tasks which have ever entered the run."""

    @abstractmethod
    async def replay(
        self, run_id: str, ids: Sequence[str] | None = None, *, where: DeadFilter = DeadFilter()
    ) -> int:
        """Put dead letters back to pending with their attempts reset, and return how many."""

    @abstractmethod
    async def drop(
        self, run_id: str, ids: Sequence[str] | None = None, *, where: DeadFilter = DeadFilter()
    ) -> int:
        """Give dead letters up for good, and return how many. Their keys stay taken."""

    # Hosts and workers

    @abstractmethod
    def hosts(self, run_id: str | None = None, *, after: str | None = None) -> AsyncIterator[HostStatus]:
        """Stream the hosts, of one run or of all, from the one behind the place `after`."""

    @abstractmethod
    async def pause_host(self, host: str, duration: timedelta) -> None:
        """Ask a host nothing for a while, in any run; zero ends a pause."""

    @abstractmethod
    async def slow_host(self, host: str, delay: timedelta) -> None:
        """Keep at least this gap between two starts on a host, in any run; zero lifts it."""

    @abstractmethod
    async def beat(
        self, worker_id: str, *, run_id: str, state: str = "running", info: Mapping[str, Any] = NOTHING
    ) -> None:
        """Say that a worker is alive, what it does, and what else is worth showing."""

    @abstractmethod
    async def workers(self, run_id: str | None = None) -> Sequence[WorkerStatus]:
        """Return the workers that have ever sent a heartbeat, of one run or of all."""

    # Notes

    @abstractmethod
    async def notes(self, topic: str, keys: Sequence[str] | None = None) -> dict[str, Note]:
        """Return the notes of a topic that have not expired: those asked for, or all."""

    @abstractmethod
    async def write_notes(
        self, topic: str, values: Mapping[str, bytes | None], *, ttl: timedelta | None = None
    ) -> None:
        """Write notes whatever was there; None removes one. Raises InvalidNote before anything is changed."""

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

        Returns the new note, or None when someone was quicker. What is left of a removed one is `GONE`.
        """

    @abstractmethod
    async def trim_notes(self, topic: str, *, max_bytes: int) -> int:
        """Remove the oldest notes until the rest has at most so many bytes of values; return how many."""
