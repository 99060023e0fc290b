"""Items into a writer as they come, until there will be no more."""

import asyncio
import logging
from array import array
from bisect import bisect_left
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta

from shoal.core.errors import ExportUnavailable, QueueUnavailable
from shoal.core.model import StoredItem
from shoal.export.contract import Writer
from shoal.export.report import Report, Tally
from shoal.export.stream import batches, in_thread

EVERY = timedelta(milliseconds=500)
PATIENCE, AGAIN = timedelta(seconds=30), timedelta(seconds=1)

log = logging.getLogger(__name__)

ItemsAfter = Callable[[int], AsyncIterator[StoredItem]]
Ended = Callable[[], Awaitable[int | None]]


async def follow(
    items: ItemsAfter,
    writer: Writer,
    *,
    ended: Ended,
    since: datetime | None = None,
    stop: asyncio.Event | None = None,
    every: timedelta = EVERY,
) -> Report:
    """Write items as they come until the run has ended or `stop` is set, and close the writer.

    `items` streams what lies behind an id; `ended` returns None while more may come, and then how many there
    are. The writer must be a live one: what it was handed before an error stays.
    """
    follower = _Follower(items, writer, since)
    stop = stop or asyncio.Event()
    try:
        while (total := await ended()) is None and not stop.is_set():
            with suppress(QueueUnavailable):  # it may be back soon; at the end it must be
                await follower.write_new()
            await _pause(stop, every)
        await follower.finish(total)
        await in_thread(writer.close)
    except BaseException:
        writer.discard()
        raise
    return follower.tally.report(is_whole=total is not None)


class _Follower:
    """Knows which items it has seen."""

    def __init__(self, items: ItemsAfter, writer: Writer, since: datetime | None) -> None:
        self._items, self._writer, self._since = items, writer, since
        self._seen = array("q")  # in order, eight bytes an item
        self.tally = Tally(writer)

    async def write_new(self) -> None:
        """Write what lies behind the last item that was seen."""
        async for some in batches(self._items(self._seen[-1] if self._seen else 0)):
            await self._write(some)
            self._seen.extend(item.id for item in some)

    async def finish(self, total: int | None) -> None:
        """Write the rest of a run that has ended with so many items."""
        await self.write_new()
        if total is None or len(self._seen) >= total:
            return
        # A store of several servers, or a settlement that hung, may bring an item behind a higher id.
        async for some in batches(self._items(0)):
            await self._write([item for item in some if not self._has_seen(item.id)])

    async def _write(self, some: list[StoredItem]) -> None:
        meant = [item for item in some if self._since is None or item.stored_at >= self._since]
        if meant:
            await self._persist(meant)
            self.tally.add(meant)

    async def _persist(self, some: list[StoredItem]) -> None:
        """Write, and while the server is away try again: a live writer takes the same items twice."""
        clock = asyncio.get_running_loop().time
        until = clock() + PATIENCE.total_seconds()
        while True:
            try:
                return await in_thread(self._writer.write, some)
            except ExportUnavailable as error:
                if clock() > until:
                    raise
                log.warning("Waiting for %s: %s", error.place, error.reason)
                await asyncio.sleep(AGAIN.total_seconds())

    def _has_seen(self, number: int) -> bool:
        place = bisect_left(self._seen, number)
        return place < len(self._seen) and self._seen[place] == number


async def _pause(stop: asyncio.Event, every: timedelta) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(every.total_seconds()):
            await stop.wait()
