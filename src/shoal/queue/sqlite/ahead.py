"""Preparing the next batch of tasks while the last one is being written."""

import asyncio
import time
from collections.abc import AsyncIterable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Self

from shoal.core.model import EnqueueReport, Task
from shoal.queue.contract import Tasks
from shoal.queue.intake import Entry
from shoal.queue.sqlite.desk import Desk
from shoal.queue.sqlite.enqueue import enqueue

BATCH = 5_000  # tasks; fewer make more pages be written for each, more keep others waiting
BREAK = 128  # tasks


def with_breaks(tasks: Tasks) -> Tasks:
    """Return the same tasks, letting go of the GIL now and then.

    Else the writer gets it only every five milliseconds, and hardly anything is done at the same time.
    """
    return tasks if isinstance(tasks, AsyncIterable) else _with_breaks(tasks)


def _with_breaks(tasks: Iterable[Task]) -> Iterator[Task]:
    for count, task in enumerate(tasks):
        if not count % BREAK:
            time.sleep(0)
        yield task


class Ahead:
    """Enqueues batches, of which one at a time is under way, and adds up what became of them."""

    def __init__(self, writer: Desk, run_id: str) -> None:
        self.report = EnqueueReport()
        self._writer, self._run_id = writer, run_id
        self._writing: asyncio.Future[EnqueueReport] | None = None

    async def add(self, batch: Sequence[Entry]) -> None:
        """Wait for the last batch, and begin this one."""
        await self._finish()
        self._writing = self._writer.post(enqueue, self._run_id, batch)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self._finish()
        elif self._writing:
            await asyncio.gather(self._writing, return_exceptions=True)

    async def _finish(self) -> None:
        if self._writing is not None:
            writing, self._writing = self._writing, None
            self.report += await writing
