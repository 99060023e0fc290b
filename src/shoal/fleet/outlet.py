"""The items of a run on their way into a file, as they come."""

import asyncio
from contextlib import suppress
from pathlib import Path

from shoal.core.errors import QueueError
from shoal.core.model import StoredItem
from shoal.export.contract import Writer
from shoal.export.open import open_writer
from shoal.export.stream import export
from shoal.queue.contract import Queue

EVERY = 0.5
BATCH = 500
GROWING = (".jsonl", ".ndjson")


class Outlet:
    """Writes a run's items to a file: line by line while the run goes on where the format allows it."""

    def __init__(self, queue: Queue, run_id: str, path: str) -> None:
        self._queue, self._run_id, self._path = queue, run_id, path
        self._live = path == "-" or Path(path).suffix in GROWING
        self._writer: Writer | None = None
        self._last, self._written = 0, 0

        # A place that cannot be written is refused before anything is fetched.
        open_writer(path).discard()

    async def follow(self) -> None:
        """Write what comes until cancelled."""
        if not self._live:
            return
        if self._path != "-":
            Path(self._path).unlink(missing_ok=True)
        self._writer = open_writer(self._path, live=True)
        while True:
            with suppress(QueueError):
                await self._write_new(self._writer)
            await asyncio.sleep(EVERY)

    async def finish(self, count: int) -> None:
        """Write the rest, so that the file holds `count` items."""
        if self._writer:
            await self._write_new(self._writer)
            self._writer.close()
            if self._written >= count or self._path == "-":
                return
        # An item may be committed after one with a higher id was read; then the file is written anew.
        await export(lambda: self._queue.items(self._run_id), open_writer(self._path))

    async def _write_new(self, writer: Writer) -> None:
        batch: list[StoredItem] = []
        async for item in self._queue.items(self._run_id, after=self._last):
            batch.append(item)
            if len(batch) >= BATCH:
                self._put(writer, batch)
                batch = []
        if batch:
            self._put(writer, batch)

    def _put(self, writer: Writer, batch: list[StoredItem]) -> None:
        writer.write(batch)
        self._last = batch[-1].id
        self._written += len(batch)
