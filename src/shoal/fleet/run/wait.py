"""Wait for some tasks of a run: the items of each, or why it failed."""

import time
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from shoal.core.errors import InvalidTask, TaskDied, TaskExpired, UnknownTask
from shoal.core.model import Stats, Task, TaskState
from shoal.fleet.status.progress import Snapshot
from shoal.queue.contract import Queue, QueueReports

if TYPE_CHECKING:
    from shoal.fleet.handle import RunHandle

CHUNK = 500  # ids in one query
ENDED = {TaskState.COMPLETED, TaskState.EXPIRED, TaskState.DROPPED}
MAX_LISTING_SHARE = 0.1  # of the time spent on listing tasks


class TaskWaiter:
    """Tracks which of some tasks have ended.

    Items and dead letters reveal most of them. A task without items is found in the list of all tasks,
    or, where the store does not list those, when the run has finished.
    """

    def __init__(self, queue: QueueReports, run_id: str, ids: Iterable[str]) -> None:
        self._queue, self._run_id = queue, run_id
        self._left = set(ids)
        self.items: dict[str, list[Any]] = {}
        self.errors: dict[str, TaskDied | TaskExpired] = {}
        self._seen: Stats | None = None
        self._last = 0
        self._next_listing = 0.0

    async def check(self) -> None:
        """Raise UnknownTask if one of them was never enqueued in the run: it would never have a result."""
        known: set[str] = set()
        for some in _chunks(list(self._left)):
            known |= await self._queue.entered(self._run_id, some)
        if unknown := sorted(self._left - known):
            raise UnknownTask(self._run_id, unknown)

    @property
    def is_over(self) -> bool:
        """Whether all of them have ended."""
        return not self._left

    async def update(self, snapshot: Snapshot, *, is_last: bool) -> None:
        """Record what has ended since the last update; the final one takes what is left as completed."""
        stats, before = snapshot.stats, self._seen or Stats()
        if stats.items != before.items:
            await self._read_items()
        if stats.dead != before.dead or is_last:
            await self._read_dead_letters()
        if self._left and (is_last or self._should_list(stats, before)):
            await self._read_task_list()
        if is_last and stats.remaining:
            left, self._left = self._left, set()
            self.errors |= {one: TaskExpired(self._run_id, one, "left undone") for one in left}
        elif is_last:
            self._end(list(self._left))
        if not self._left:
            await self._read_late_items()
        self._seen = stats

    async def _read_items(self) -> None:
        async for item in self._queue.items(self._run_id, after=self._last):
            self._last = item.id
            if item.task_id in self._left or item.task_id in self.items:
                self.items.setdefault(item.task_id, []).append(item.data)
        self._left -= self.items.keys()

    async def _read_dead_letters(self) -> None:
        for some in _chunks(list(self._left)):
            async for letter in self._queue.dead(self._run_id, ids=some):
                self.errors[letter.id] = TaskDied(
                    self._run_id, letter.id, letter.task.url, letter.error, letter.traceback
                )
        self._left -= self.errors.keys()

    def _should_list(self, stats: Stats, before: Stats) -> bool:
        ended = (stats.completed, stats.expired, stats.dropped)
        return (
            ended != (before.completed, before.expired, before.dropped)
            and time.monotonic() > self._next_listing
        )

    async def _read_task_list(self) -> None:
        began = time.monotonic()
        async for status in self._queue.tasks(self._run_id, states=ENDED):
            if status.id in self._left:
                if status.state is not TaskState.COMPLETED:
                    self.errors[status.id] = TaskExpired(self._run_id, status.id, str(status.state))
                self._end([status.id])
        now = time.monotonic()
        self._next_listing = now + (now - began) / MAX_LISTING_SHARE

    def _end(self, ids: Collection[str]) -> None:
        self._left -= set(ids)
        for one in ids:
            if one not in self.errors:
                self.items.setdefault(one, [])

    async def _read_late_items(self) -> None:
        """Read again for items that were committed after others with higher ids."""
        empty = {one for one, found in self.items.items() if not found}
        if not empty:
            return
        async for item in self._queue.items(self._run_id):
            if item.task_id in empty:
                self.items[item.task_id].append(item.data)


async def outcomes(
    queue: Queue, run_id: str, ids: Sequence[str], snapshots: AsyncIterator[Snapshot], *, strict: bool
) -> TaskWaiter:
    """Wait until all of these tasks have ended; a strict wait ends at the first failure."""
    waiting = TaskWaiter(queue, run_id, ids)
    await waiting.check()
    async for snapshot in snapshots:
        await waiting.update(snapshot, is_last=snapshot.is_over)
        if waiting.is_over or (strict and waiting.errors):
            break
    return waiting


def _chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), CHUNK):
        yield ids[start : start + CHUNK]


def payload_tasks(payloads: Sequence[Mapping[str, Any]], step: str | None) -> list[Task]:
    """Return a task for each payload; without a step, for the scraper's first."""
    return [Task(step=step, payload=one) if step else Task(payload=one) for one in payloads]


async def gather_items(
    handle: "RunHandle", tasks: Sequence[Task], timeout: timedelta | None, *, return_exceptions: bool
) -> list[Any]:
    """Wait for the tasks of a run and return the items of each; raises as `App.gather` does."""
    ids = handle.ids
    wanted = list({one for one in ids if one})
    waiting = await handle.outcomes(wanted, timeout, strict=not return_exceptions)
    if waiting.errors and not return_exceptions:
        raise next(iter(waiting.errors.values()))
    results: dict[str, Any] = {**waiting.items, **waiting.errors}
    refused = "its payload or its step cannot be queued; see the run's report"
    return [results[one] if one else InvalidTask(task, refused) for task, one in zip(tasks, ids, strict=True)]
