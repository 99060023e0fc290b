"""Requests that belong to no task: of extensions, of `spider_idle`, and of `start()`, which may take long."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta

from shoal.core.errors import QueueError
from shoal.core.model import EnqueueReport, Task
from shoal.queue.contract import WorkQueue

LINGER_INTERVAL = timedelta(milliseconds=50)  # in which requests are collected
RETRY_INTERVAL = timedelta(seconds=1)

log = logging.getLogger(__name__)


class OutsideRequests:
    """Enqueues requests in the background, those of a moment together."""

    def __init__(
        self,
        queue: WorkQueue,
        run_id: str,
        prepare: Callable[[list[Task]], Awaitable[list[Task]]],
        on_enqueued: Callable[[EnqueueReport], None],
        order: int = 1,
    ) -> None:
        self._queue, self._run_id, self._prepare, self._on_enqueued = queue, run_id, prepare, on_enqueued
        self._tasks: list[tuple[bool, Task]] = []  # whether it is of `start()`
        self._order = order  # -1 to send the last ones of `start()` in a moment first
        self._lock = asyncio.Lock()
        self._sending: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._tasks) + self._lock.locked()

    def add(self, task: Task, *, is_start: bool = False) -> None:
        """Add a request; a moment later it is in the queue, before those of `start()`."""
        self._tasks.append((is_start, task))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def flush(self) -> EnqueueReport:
        """Enqueue what is there, and return what became of it; raises the queue's error."""
        report = EnqueueReport()
        async with self._lock:
            while count := len(self._tasks):
                others = [task for is_start, task in self._tasks[:count] if not is_start]
                of_start = [task for is_start, task in self._tasks[:count] if is_start]
                tasks = await self._prepare([*others, *of_start[:: self._order]])
                report += await self._queue.enqueue(self._run_id, tasks, on_invalid=_log_invalid)
                del self._tasks[:count]
        self._on_enqueued(report)
        return report

    async def _send(self) -> None:
        while self._tasks:
            await asyncio.sleep(LINGER_INTERVAL.total_seconds())
            try:
                await self.flush()
            except QueueError as error:
                log.warning("Requests cannot be enqueued, and are tried again: %s", error)
                await asyncio.sleep(RETRY_INTERVAL.total_seconds())


def _log_invalid(position: int, error: Exception) -> None:
    log.error("A request was not enqueued: %s", error)
