"""The verbs of workers and producers: tasks in, leases out, outcomes back."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from shoal.core.errors import InvalidTask
from shoal.core.model import MINUTE, NOTHING, ZERO, EnqueueReport, Fate, Grant, Lease, Outcome, Task
from shoal.queue.contract.notes import Fence

Tasks = Iterable[Task] | AsyncIterable[Task]
OnInvalid = Callable[[int, InvalidTask], None]
DEFAULT_LEASE = 5 * MINUTE


class WorkerBeat(NamedTuple):
    """A heartbeat of a worker: its state, and further values to show."""

    worker_id: str
    state: str = "running"
    info: Mapping[str, Any] = NOTHING


class WorkQueue(ABC):
    """Hands out tasks and takes their outcomes."""

    @abstractmethod
    async def enqueue(
        self, run_id: str, tasks: Tasks, *, on_invalid: OnInvalid | None = None
    ) -> EnqueueReport:
        """Add a stream of tasks, each key of a (run, step) once.

        With `RunSettings.dedup`, a key that another run of the scraper queued recently is skipped as known.
        An invalid task is counted and passed to `on_invalid` with its position; the others are added.
        """

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
        lead: timedelta = ZERO,
    ) -> Grant:
        """Lease up to `limit` tasks whose hosts may get a request now, or `lead` from now.

        No task of a host starts sooner than `lead` from now: so a reply that takes less brings no start that
        has passed. With a fence, nothing is leased unless that note still has that stamp: `Grant.outdated`.
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
    async def extend_worker(self, worker_id: str, *, lease: timedelta = DEFAULT_LEASE) -> int:
        """Extend every lease of a worker, in all runs, whose deadline has not passed; return how many.

        For a caller that knows that the worker is alive, but not what it holds: see `extend`.
        """

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

    @abstractmethod
    async def beat(
        self, worker_id: str, *, run_id: str, state: str = "running", info: Mapping[str, Any] = NOTHING
    ) -> None:
        """Store a heartbeat of a worker: its state, and further values to show."""

    async def beat_together(self, run_id: str, beats: Sequence[WorkerBeat]) -> None:
        """Store a heartbeat of each of several workers of a run; in one call, if the store can do that."""
        for beat in beats:
            await self.beat(beat.worker_id, run_id=run_id, state=beat.state, info=beat.info)
