"""The contract of every queue backend; `tests/conformance` tests each backend against it."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Self

from shoal.queue.contract.admin import EditFate, LetterEdit, QueueAdmin, RunLimits
from shoal.queue.contract.notes import GONE, Fence, NotesSize, SharedNotes
from shoal.queue.contract.reports import Evictions, QueueReports, StoreSize
from shoal.queue.contract.work import DEFAULT_LEASE, OnInvalid, Tasks, WorkerBeat, WorkQueue

__all__ = [
    "DEFAULT_LEASE",
    "GONE",
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


class Queue(WorkQueue, QueueReports, QueueAdmin, SharedNotes):
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
