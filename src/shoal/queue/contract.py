"""The contract of every queue backend; `tests/conformance` tests each backend against it.

A public verb checks its arguments and prepares what is to be stored, once for all backends. A backend
implements the methods with an underscore, and the verbs that need no preparation.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self, Unpack

import msgspec

from shoal.core.errors import InvalidSetting, RunConflict, UnknownRun
from shoal.core.failures import error_text
from shoal.core.model import (
    NOTHING,
    ZERO,
    DeadFilter,
    DeadLetter,
    Done,
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
    RunState,
    Stats,
    StoredItem,
    StoredReject,
    TaskState,
    TaskStatus,
    WorkerStatus,
)
from shoal.queue.intake import BATCH, Intake, PreparedOutcome, QueuedTask, encode_item, ids_of, prepare
from shoal.queue.requests import (
    DEFAULT_LEASE,
    GONE,
    ClaimRequest,
    EditFate,
    Fence,
    LetterEdit,
    OnInvalid,
    RunLimits,
    Tasks,
    WorkerBeat,
    changed_settings,
    check_claim,
    check_delay,
    check_lease,
    check_new_notes,
    check_notes,
    check_run,
    check_trim,
    known_ids,
    new_run_id,
    steered,
)

__all__ = [
    "DEFAULT_LEASE",
    "GONE",
    "ClaimRequest",
    "EditFate",
    "Evictions",
    "Fence",
    "LetterEdit",
    "NotesSize",
    "OnInvalid",
    "OpenQueue",
    "Queue",
    "QueueAdmin",
    "QueueReports",
    "RunLimits",
    "SharedNotes",
    "StoreSize",
    "Tasks",
    "WorkQueue",
    "WorkerBeat",
]


@dataclass(frozen=True, slots=True)
class StoreSize:
    """The size of a queue's store in bytes, and what was measured."""

    bytes: int
    text: str


class Evictions(msgspec.Struct, frozen=True):
    """What a store deletes by itself when it is full, in sentences for the user, and what it has so far."""

    text: str
    count: int


class NotesSize(msgspec.Struct, frozen=True):
    """How many notes a topic has, the bytes of their values, and the age of the oldest."""

    count: int = 0
    bytes: int = 0
    oldest: timedelta | None = None  # None without notes


class QueueReports(ABC):
    """Shows what a queue holds; nothing here changes it."""

    @abstractmethod
    async def durability(self) -> Durability:
        """Return what a crash of the store can cost with its present settings."""

    async def evictions(self) -> Evictions | None:
        """Return what the store deletes by itself when it is full; None if it refuses new data instead."""
        return None

    @abstractmethod
    async def size(self) -> StoreSize:
        """Return the size of the store. It is cheap, whatever the queue holds."""

    @abstractmethod
    async def run(self, run_id: str) -> Run:
        """Return one run; raises UnknownRun."""

    @abstractmethod
    async def runs(self) -> Sequence[Run]:
        """Return all runs, the newest first."""

    @abstractmethod
    async def stats(self, run_id: str) -> Stats:
        """Return the counts of a run, exact as of the last claim or reclaim."""

    @abstractmethod
    def items(self, run_id: str, *, step: str | None = None, after: int = 0) -> AsyncIterator[StoredItem]:
        """Stream the items in the order of their ids, from the one after `after`."""

    @abstractmethod
    def rejects(self, run_id: str, *, step: str | None = None, after: int = 0) -> AsyncIterator[StoredReject]:
        """Stream the rejects in the order of their ids, from the one after `after`."""

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
        return self._dead_letters(run_id, where, None if ids is None else known_ids(ids), after)

    @abstractmethod
    def _dead_letters(
        self, run_id: str, where: DeadFilter, ids: Sequence[bytes] | None, after: str | None
    ) -> AsyncIterator[DeadLetter]: ...

    @abstractmethod
    def expired(self, run_id: str, *, after: str | None = None) -> AsyncIterator[ExpiredTask]:
        """Stream the tasks whose time to live is over, from the one after the cursor `after`."""

    async def tasks(
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
        if keys is not None and after is not None:
            raise InvalidSetting("after", "cannot be combined with keys")
        run = await self.run(run_id)
        if keys is None:
            found = self._tasks(run_id, step, states, after)
        else:
            ids = ids_of(run, step, keys, (await self.stats(run_id)).steps)
            found = self._tasks_by_id(run_id, ids, step, states)
        async for status in found:
            yield status

    @abstractmethod
    def _tasks(
        self, run_id: str, step: str | None, states: Collection[TaskState] | None, after: str | None
    ) -> AsyncIterator[TaskStatus]: ...

    @abstractmethod
    def _tasks_by_id(
        self, run_id: str, ids: Mapping[bytes, str], step: str | None, states: Collection[TaskState] | None
    ) -> AsyncIterator[TaskStatus]:
        """Stream the tasks with these ids, each with the step that it would have; not all of them exist."""

    async def entered(self, run_id: str, ids: Collection[str]) -> set[str]:
        """Return the subset of these ids whose tasks have ever entered the run."""
        return await self._entered(run_id, known_ids(ids))

    @abstractmethod
    async def _entered(self, run_id: str, ids: Sequence[bytes]) -> set[str]: ...

    @abstractmethod
    def hosts(self, run_id: str | None = None, *, after: str | None = None) -> AsyncIterator[HostStatus]:
        """Stream the hosts, of one run or of all, from the one after the cursor `after`.

        The counts of all runs leave out the tasks that wait in runs which have ended: no worker does them.
        """

    @abstractmethod
    async def workers(self, run_id: str | None = None) -> Sequence[WorkerStatus]:
        """Return the workers that have ever sent a heartbeat, of one run or of all."""


class _RunIntakes(QueueReports):
    """Keeps the intakes of runs, which the verbs that store tasks share."""

    def __init__(self) -> None:
        self._intakes: dict[str, Intake] = {}

    async def _intake(self, run_id: str, *, refresh: bool = False) -> Intake:
        """Return the intake of a run; raises UnknownRun."""
        if refresh or run_id not in self._intakes:
            run = await self.run(run_id)
            self._intakes[run_id] = Intake(run_id, run.settings, run.scraper)
        return self._intakes[run_id]


class WorkQueue(_RunIntakes):
    """Hands out tasks and takes their outcomes."""

    enqueue_batch = BATCH  # tasks that `_enqueue` gets at a time

    async def enqueue(
        self, run_id: str, tasks: Tasks, *, on_invalid: OnInvalid | None = None
    ) -> EnqueueReport:
        """Add a stream of tasks, each key of a (run, step) once.

        With `RunSettings.dedup`, a key that another run of the scraper queued recently is skipped as known.
        An invalid task is counted and passed to `on_invalid` with its position; the others are added.
        """
        intake = await self._intake(run_id, refresh=True)
        report = EnqueueReport()
        storing: asyncio.Task[EnqueueReport] | None = None
        try:
            async for batch, invalid in intake.batches(tasks, on_invalid, self.enqueue_batch):
                report += EnqueueReport(invalid=invalid)
                if storing:
                    report += await storing
                # The store writes this batch while the next one is prepared.
                storing = asyncio.create_task(self._enqueue(run_id, batch))
                await asyncio.sleep(0)
            return report + await storing if storing else report
        except BaseException as error:
            if storing:
                if not isinstance(error, Exception):  # a caller that is cancelled does not wait for the store
                    storing.cancel()
                await asyncio.gather(storing, return_exceptions=True)
            raise

    @abstractmethod
    async def _enqueue(self, run_id: str, tasks: Sequence[QueuedTask]) -> EnqueueReport:
        """Add a batch of tasks, among which a key may occur more than once; raises UnknownRun."""

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
        lead: timedelta = ZERO,
    ) -> Grant:
        """Lease up to `limit` tasks whose hosts may get a request now, or `lead` from now.

        No task of a host starts sooner than `lead` from now: so a reply that takes less brings no start that
        has passed. With a fence, nothing is leased unless that note still has that stamp: `Grant.outdated`.
        """
        request = check_claim(ClaimRequest(worker_id, run_id, limit, lease, steps, partitions, fence, lead))
        try:
            return await self._claim(request)
        except UnknownRun:
            await self.run(run_id)  # raises the same error with the nearest run id
            raise

    @abstractmethod
    async def _claim(self, request: ClaimRequest) -> Grant: ...

    async def settle(self, outcomes: Sequence[Outcome]) -> list[Fate]:
        """Apply the outcomes, each atomically; the fates are in the same order.

        A Retry without an attempt left becomes a dead letter. Raises InvalidItem or InvalidTask, before
        anything is changed, if an outcome contains something that cannot be stored.
        """
        run_ids = {one.lease.run_id for one in outcomes if isinstance(one, Done) and one.follow}
        intakes = {run_id: await self._intake_or_default(run_id) for run_id in run_ids}
        return await self._settle(prepare(outcomes, intakes))

    async def _intake_or_default(self, run_id: str) -> Intake:
        """Return the intake of a run, also of a purged one: its outcomes are stale, not errors."""
        try:
            return await self._intake(run_id)
        except UnknownRun:
            return Intake(run_id, RunSettings())

    @abstractmethod
    async def _settle(self, outcomes: Sequence[PreparedOutcome]) -> list[Fate]:
        """Apply outcomes; of two for the same lease, the second is STALE."""

    async def extend(self, leases: Sequence[Lease], *, lease: timedelta = DEFAULT_LEASE) -> list[Fate]:
        """Renew live leases: set their deadlines to `lease` from now."""
        check_lease(lease)
        return await self._extend(leases, lease)

    @abstractmethod
    async def _extend(self, leases: Sequence[Lease], lease: timedelta) -> list[Fate]: ...

    async def extend_worker(self, worker_id: str, *, lease: timedelta = DEFAULT_LEASE) -> int:
        """Extend every lease of a worker, in all runs, whose deadline has not passed; return how many.

        For a caller that knows that the worker is alive, but not what it holds: see `extend`.
        """
        check_lease(lease)
        return await self._extend_worker(worker_id, lease)

    @abstractmethod
    async def _extend_worker(self, worker_id: str, lease: timedelta) -> int: ...

    @abstractmethod
    async def reclaim(self) -> int:
        """End each expired lease, whose deadline has passed, and return how many there were.

        A task without an attempt left becomes a dead letter, the others become pending. Tasks whose delay is
        over become pending, and tasks whose time to live is over expire. Any worker may call it.
        """

    async def abandon(self, worker_id: str, *, once: Collection[str] = (), reason: str = "") -> int:
        """End every lease of a worker that is known to be dead, in all runs, and return how many.

        Each ends like a Release by its worker: the attempt does not count, and a later outcome of the worker
        is STALE. Tasks of the steps `once`, which are delivered at most once, end like a Bury with this
        reason.
        """
        return await self._abandon(worker_id, list(once), error_text(reason))

    @abstractmethod
    async def _abandon(self, worker_id: str, once: Sequence[str], reason: str) -> int: ...

    async def beat(
        self, worker_id: str, *, run_id: str, state: str = "running", info: Mapping[str, Any] = NOTHING
    ) -> None:
        """Store a heartbeat of a worker: its state, and further values to show."""
        await self.beat_together(run_id, [WorkerBeat(worker_id, state, info)])

    async def beat_together(self, run_id: str, beats: Sequence[WorkerBeat]) -> None:
        """Store a heartbeat of each of several workers of a run; in one call, if the store can do that."""
        newest = {
            beat.worker_id: (beat.worker_id, beat.state, encode_item(dict(beat.info))) for beat in beats
        }
        if newest:
            await self._beat(run_id, list(newest.values()))

    @abstractmethod
    async def _beat(self, run_id: str, beats: Sequence[tuple[str, str, str]]) -> None:
        """Store heartbeats: worker, state and what it does as JSON; raises UnknownRun."""


class QueueAdmin(_RunIntakes):
    """Starts, changes and deletes runs, and handles dead letters and hosts."""

    async def start_run(
        self, scraper: str, *, settings: RunSettings = RunSettings(), run_id: str | None = None
    ) -> Run:
        """Create a run, or return the one that has this id.

        Raises RunConflict if that run belongs to another scraper.
        """
        check_run(scraper, settings, run_id)
        run, is_new = await self._start_run(scraper, settings, run_id or new_run_id(await self.now()))
        while run_id is None and not is_new:  # among a hundred runs of one second, two may well draw the same
            run, is_new = await self._start_run(scraper, settings, new_run_id(await self.now()))
        if run.scraper != scraper:
            raise RunConflict.of_another(run.id, run.scraper, scraper)
        self._intakes.pop(run.id, None)
        return run

    @abstractmethod
    async def _start_run(self, scraper: str, settings: RunSettings, run_id: str) -> tuple[Run, bool]:
        """Create a run, or return the one that has this id, also of another scraper.

        The second value is whether this call created it, also if the first reply was lost.
        """

    @abstractmethod
    async def now(self) -> datetime:
        """Return the store's time, by which all times of the queue are."""

    async def pause(self, run_id: str) -> Run:
        """Lease no task of the run until it is resumed. Live leases can still be settled.

        Raises RunConflict if the run has ended.
        """
        return steered(await self._steer(run_id, RunState.PAUSED), RunState.PAUSED)

    async def resume(self, run_id: str) -> Run:
        """Continue a paused or partial run; raises RunConflict if it was cancelled."""
        return steered(await self._steer(run_id, RunState.RUNNING), RunState.RUNNING)

    async def finish(self, run_id: str, reason: str) -> Run:
        """End a run although tasks are left: its state becomes partial, with this reason.

        No task is leased until the run is resumed. Live leases can still be settled. A run that has ended
        does not change, so that many workers may call this at once.
        """
        run = await self._steer(run_id, RunState.PARTIAL, error_text(reason))
        return steered(run, RunState.PARTIAL)

    async def cancel(self, run_id: str) -> Run:
        """Lease no task of the run ever again. Live leases can still be settled; nothing is deleted."""
        return steered(await self._steer(run_id, RunState.CANCELLED), RunState.CANCELLED)

    @abstractmethod
    async def _steer(self, run_id: str, state: RunState, reason: str = "") -> Run:
        """Change the state of a run if `STEERED_FROM` allows it, and return the run as it is then."""

    async def change_run(self, run_id: str, **limits: Unpack[RunLimits]) -> Run:
        """Change the rate limits and the attempts of a run.

        The next claim and settlement obey, and a host that waits for the old delay waits for the new one.
        """
        run = await self.run(run_id)
        return await self._change_run(run, changed_settings(run, limits))

    @abstractmethod
    async def _change_run(self, run: Run, settings: RunSettings) -> Run: ...

    async def purge(self, run_id: str) -> None:
        """Delete a run with all its tasks, items and dead letters.

        The run is unknown at once; its data is deleted in batches, so that other calls do not wait long.
        """
        self._intakes.pop(run_id, None)
        await self._purge(run_id)

    @abstractmethod
    async def _purge(self, run_id: str) -> None: ...

    @abstractmethod
    async def forget(self, scraper: str) -> int:
        """Forget what runs with `dedup` of this scraper queued, and return the number of tasks."""

    async def replay(
        self,
        run_id: str,
        ids: Sequence[str] | None = None,
        *,
        where: DeadFilter = DeadFilter(),
        delay: timedelta = ZERO,
    ) -> int:
        """Make dead letters pending again with their attempts reset, and return how many.

        With a delay they are delayed first; their time to live begins when it is over. Raises InvalidSetting
        for a delay that is negative or longer than a hundred years.
        """
        check_delay(delay)
        return await self._replay(run_id, None if ids is None else known_ids(ids), where, delay)

    @abstractmethod
    async def _replay(
        self, run_id: str, ids: Sequence[bytes] | None, where: DeadFilter, delay: timedelta
    ) -> int: ...

    async def drop(
        self, run_id: str, ids: Sequence[str] | None = None, *, where: DeadFilter = DeadFilter()
    ) -> int:
        """Drop dead letters for good, and return how many. Their keys cannot be queued again."""
        return await self._drop(run_id, None if ids is None else known_ids(ids), where)

    @abstractmethod
    async def _drop(self, run_id: str, ids: Sequence[bytes] | None, where: DeadFilter) -> int: ...

    async def edit(self, run_id: str, edits: Sequence[LetterEdit]) -> list[EditFate]:
        """Replace the tasks of dead letters, each atomically; the fates are in the same order.

        A letter keeps its place in the list, its attempts and its history, which gets an entry of attempt 0.
        Its id and key are those of the new task; the old key may be queued again. Raises InvalidTask before
        anything is changed.
        """
        intake = await self._intake(run_id, refresh=True)
        pairs = [(edit, intake.entry(edit.task)) for edit in edits]
        return await self._edit(run_id, pairs) if pairs else []

    @abstractmethod
    async def _edit(self, run_id: str, edits: Sequence[tuple[LetterEdit, QueuedTask]]) -> list[EditFate]: ...

    @abstractmethod
    async def pause_host(self, host: str, duration: timedelta) -> None:
        """Send no request to a host for a while, in any run; zero ends a pause."""

    @abstractmethod
    async def slow_host(self, host: str, delay: timedelta) -> None:
        """Keep at least this gap between two starts on a host, in any run; zero removes it."""

    @abstractmethod
    async def take_turn(self, host: str, gap: timedelta) -> timedelta:
        """Plan a start on a host for a request without a lease of it, and return how long until then.

        It counts as a start of a run whose `host_delay` is `gap`. A pause does not hold it back.
        """


class SharedNotes(ABC):
    """Stores small values for the whole fleet; with `swap_note` they serve as locks."""

    async def notes(self, topic: str, keys: Sequence[str] | None = None) -> dict[str, Note]:
        """Return the notes of a topic that have not expired: those with these keys, or all."""
        check_notes(topic, keys or ())
        return await self._read_notes(topic, keys)

    @abstractmethod
    async def _read_notes(self, topic: str, keys: Iterable[str] | None) -> dict[str, Note]: ...

    async def write_notes(
        self, topic: str, values: Mapping[str, bytes | None], *, ttl: timedelta | None = None
    ) -> None:
        """Write notes unconditionally; None removes one. Raises InvalidNote before anything is changed."""
        check_new_notes(topic, values, ttl)
        await self._write_notes(topic, values, ttl)

    @abstractmethod
    async def _write_notes(
        self, topic: str, values: Mapping[str, bytes | None], ttl: timedelta | None
    ) -> None: ...

    async def swap_note(
        self, topic: str, key: str, value: bytes | None, *, stamp: int | None, ttl: timedelta | None = None
    ) -> Note | None:
        """Write or remove a note if it still has this stamp (None: if there is none).

        Returns the new note, `GONE` for a removed one, or None if the stamp has changed.
        """
        check_new_notes(topic, {key: value}, ttl)
        return await self._swap_note(topic, key, value, stamp, ttl)

    @abstractmethod
    async def _swap_note(
        self, topic: str, key: str, value: bytes | None, stamp: int | None, ttl: timedelta | None
    ) -> Note | None: ...

    async def trim_notes(self, topic: str, *, max_bytes: int) -> int:
        """Remove the oldest notes until the values have at most `max_bytes` in total; return how many."""
        check_trim(topic, max_bytes)
        return await self._trim_notes(topic, max_bytes)

    @abstractmethod
    async def _trim_notes(self, topic: str, max_bytes: int) -> int: ...

    async def notes_size(self, topic: str) -> NotesSize:
        """Return the size of a topic."""
        check_notes(topic)
        return await self._notes_size(topic)

    async def _notes_size(self, topic: str) -> NotesSize:
        """Read all values; a backend that counts them need not."""
        found = (await self._read_notes(topic, None)).values()
        oldest = max((note.age for note in found), default=None)
        return NotesSize(len(found), sum(len(note.value) for note in found), oldest)


class Queue(WorkQueue, QueueAdmin, SharedNotes):
    """Stores tasks, and their results. Take the narrower class where you need only one group of verbs.

    Every verb is safe to repeat: when a connection is lost, a backend repeats the call until it gets the
    result, and the call takes effect once.
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @abstractmethod
    async def close(self) -> None:
        """Close every connection, thread and file."""

    @abstractmethod
    async def migrate(self) -> int:
        """Migrate the store to this Shoal's schema and return its version; may run twice and in parallel."""


# Opens the queue at an address; the timeout is how long it retries a store that cannot be reached.
OpenQueue = Callable[[str, timedelta], Awaitable[Queue]]
