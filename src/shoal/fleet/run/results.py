"""Writes the items of a run to the user's output while the run is in progress."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Self

from shoal.core.errors import DutyFailed, ShoalError
from shoal.core.model import StoredItem
from shoal.export.follow import follow
from shoal.export.open import open_writer
from shoal.export.stream import export
from shoal.export.target import STDOUT
from shoal.queue.contract import Queue

log = logging.getLogger(__name__)
APPENDABLE = (".jsonl", ".ndjson")


class ResultWriter:
    """Writes a run's items while it is open: line by line as they are stored, where the format allows it.

    Without a path nothing is written.
    """

    def __init__(self, queue: Queue, run_id: str, path: str | None) -> None:
        self._queue, self._run_id, self._path = queue, run_id, path
        self._follower: asyncio.Task[object] | None = None
        self._total: int | None = None
        self._over = asyncio.Event()
        self._on_lost: Callable[[], object] = lambda: None

        # An output that cannot be written is refused before anything is fetched.
        if path:
            open_writer(path).discard()

    async def __aenter__(self) -> Self:
        if self._path and (self._path == STDOUT or Path(self._path).suffix in APPENDABLE):
            writer = open_writer(self._path, live=True, overwrite=True)
            self._follower = asyncio.create_task(
                follow(self._items_after, writer, ended=self._total_if_known, stop=self._over)
            )
            self._follower.add_done_callback(self._handle_failure)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._follower and not self._follower.done():
            self._follower.cancel()
            await asyncio.wait([self._follower])

    async def finish(self, count: int) -> None:
        """Write the rest of a run that has ended with `count` items."""
        self._total = count
        self._over.set()
        if self._follower:
            try:
                await self._follower
                return
            except Exception:
                if self._path == STDOUT:
                    raise
        # What broke the first attempt, a full disk or an unreachable store, may be over.
        if self._path:
            await export(lambda: self._items_after(0), open_writer(self._path))

    def when_lost(self, stop: Callable[[], object]) -> None:
        """Call `stop` when items can no longer be written, not even at the end of the run."""
        self._on_lost = stop

    def _handle_failure(self, task: asyncio.Task[object]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None or self._over.is_set():  # then `finish` raises it, or retries
            return
        failed = (
            error if isinstance(error, ShoalError) else DutyFailed(f"Writing items to {self._path}", error)
        )
        if self._path == STDOUT:
            log.warning("%s Stopping: nothing receives the items.", _sentence(failed))
            self._on_lost()
        else:
            log.warning("%s The items will be written at the end of the run.", _sentence(failed))

    def _items_after(self, after: int) -> AsyncIterator[StoredItem]:
        return self._queue.items(self._run_id, after=after)

    async def _total_if_known(self) -> int | None:
        return self._total


def _sentence(error: ShoalError) -> str:
    words = str(error)
    return words if words.endswith(".") else f"{words}."
