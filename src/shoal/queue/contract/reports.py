"""The verbs that only read: runs, counts, results, dead letters, hosts and workers."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass

from shoal.core.model import (
    DeadFilter,
    DeadLetter,
    Durability,
    ExpiredTask,
    HostStatus,
    Run,
    Stats,
    StoredItem,
    StoredReject,
    TaskState,
    TaskStatus,
    WorkerStatus,
)


@dataclass(frozen=True, slots=True)
class StoreSize:
    """The size of a queue's store in bytes, and what was measured."""

    bytes: int
    text: str


@dataclass(frozen=True, slots=True)
class Evictions:
    """What a store deletes by itself when it is full, in sentences for the user, and what it has so far."""

    text: str
    count: int


class QueueReports(ABC):
    """Shows what a queue holds; nothing here changes it."""

    @abstractmethod
    async def durability(self) -> Durability:
        """Return what a crash of the store can cost with its present settings."""

    async def check_for_workers(self) -> None:
        """Raise QueueError if the store would refuse every worker beside this process."""
        return

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
    def hosts(self, run_id: str | None = None, *, after: str | None = None) -> AsyncIterator[HostStatus]:
        """Stream the hosts, of one run or of all, from the one after the cursor `after`."""

    @abstractmethod
    async def workers(self, run_id: str | None = None) -> Sequence[WorkerStatus]:
        """Return the workers that have ever sent a heartbeat, of one run or of all."""
