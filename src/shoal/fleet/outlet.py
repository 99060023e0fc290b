"""The items of a run on their way to where the user wants them, as they come."""

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
GROWING = (".jsonl", ".ndjson")


class Outlet:
    """Writes a run's items while it is open: line by line as they come where the format allows it.

    Without a path nothing is written.
    """

    def __init__(self, queue: Queue, run_id: str, path: str | None) -> None:
        self._queue, self._run_id, self._path = queue, run_id, path
        self._following: asyncio.Task[object] | None = None
        self._total: int | None = None
        self._over = asyncio.Event()
        self._on_lost: Callable[[], object] = lambda: None

        # A place that cannot be written is refused before anything is fetched.
        if path:
            open_writer(path).discard()

    async def __aenter__(self) -> Self:
        if self._path and (self._path == STDOUT or Path(self._path).suffix in GROWING):
            writer = open_writer(self._path, live=True, anew=True)
            self._following = asyncio.create_task(
                follow(self._behind, writer, ended=self._ended, stop=self._over)
            )
            self._following.add_done_callback(self._stopped_following)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._following and not self._following.done():
            self._following.cancel()
            await asyncio.wait([self._following])

    async def finish(self, count: int) -> None:
        """Write the rest of a run that has ended with so many items."""
        self._total = count
        self._over.set()
        if self._following:
            try:
                await self._following
                return
            except Exception:
                if self._path == STDOUT:
                    raise
        # What was in the way of the first writing, a full disk or a store that was away, may be gone.
        if self._path:
            await export(lambda: self._behind(0), open_writer(self._path))

    def when_lost(self, stop: Callable[[], object]) -> None:
        """Call this when items can no longer be written, and will not be at the end of the run either."""
        self._on_lost = stop

    def _stopped_following(self, task: asyncio.Task[object]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None or self._over.is_set():  # then `finish` raises it, or tries again
            return
        failed = (
            error if isinstance(error, ShoalError) else DutyFailed(f"Writing items to {self._path}", error)
        )
        if self._path == STDOUT:
            log.warning("%s Stopping, for nobody gets the items.", _sentence(failed))
            self._on_lost()
        else:
            log.warning("%s The items are written when the run has ended.", _sentence(failed))

    def _behind(self, after: int) -> AsyncIterator[StoredItem]:
        return self._queue.items(self._run_id, after=after)

    async def _ended(self) -> int | None:
        return self._total


def _sentence(error: ShoalError) -> str:
    words = str(error)
    return words if words.endswith(".") else f"{words}."
