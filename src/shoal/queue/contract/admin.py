"""The verbs of administration: runs, dead letters and hosts."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import TypedDict, Unpack

from shoal.core.model import ZERO, DeadFilter, DeadLetter, Run, RunSettings, Task


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


class RunLimits(TypedDict, total=False):
    """The settings of a run that may be changed: see `RunSettings`."""

    host_delay: timedelta
    per_host: int
    max_attempts: int


class QueueAdmin(ABC):
    """Starts, changes and deletes runs, and handles dead letters and hosts."""

    @abstractmethod
    async def start_run(
        self, scraper: str, *, settings: RunSettings = RunSettings(), run_id: str | None = None
    ) -> Run:
        """Create a run, or return the one that has this id.

        Raises RunConflict if that run belongs to another scraper.
        """

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

    @abstractmethod
    async def forget(self, scraper: str) -> int:
        """Forget what runs with `dedup` of this scraper queued, and return the number of tasks."""

    @abstractmethod
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

    @abstractmethod
    async def pause_host(self, host: str, duration: timedelta) -> None:
        """Send no request to a host for a while, in any run; zero ends a pause."""

    @abstractmethod
    async def slow_host(self, host: str, delay: timedelta) -> None:
        """Keep at least this gap between two starts on a host, in any run; zero removes it."""
