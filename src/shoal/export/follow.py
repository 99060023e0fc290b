"""Writes stored items: all at once, or as they are stored until the run has ended."""

import asyncio
import logging
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

import msgspec

from shoal.core.errors import ExportUnavailable, QueueError, QueueUnavailable
from shoal.core.model import StoredItem
from shoal.core.tasks import wait_for_event
from shoal.export.contract import Writer


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """How many items were written per step, and how many were skipped."""

    steps: Mapping[str, int] = {}
    skipped: int = 0
    locations: Mapping[str, str] = {}  # file or table of each step, if split by step
    is_complete: bool = True  # False if it was stopped early

    @property
    def items(self) -> int:
        """The number of items written."""
        return sum(self.steps.values())


class CountingWriter:
    """Counts the items that a writer gets."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._steps: Counter[str] = Counter()

    def add(self, items: Sequence[StoredItem]) -> None:
        """Count a batch of items."""
        self._steps.update(item.step for item in items)

    def report(self, *, is_complete: bool = True) -> Report:
        """Return the report of the writer."""
        skipped = self._writer.skipped
        left = {step: count - skipped.get(step, 0) for step, count in self._steps.items()}
        steps = {step: count for step, count in left.items() if count}
        locations = {step: location for step, location in self._writer.locations.items() if step in steps}
        return Report(
            steps=steps, skipped=sum(skipped.values()), locations=locations, is_complete=is_complete
        )


BATCH = 500

Items = Callable[[], AsyncIterator[StoredItem]]


async def export(items: Items, writer: Writer) -> Report:
    """Write all items, close the writer and return a report; discard the output after an error.

    `items` is called twice for a writer that must see all items before it writes the first.
    """
    counter = CountingWriter(writer)
    try:
        last = await survey_items(items, writer) if writer.needs_survey else None
        await _write(items, writer, counter, last)
        await in_thread(writer.close)
    except BaseException:
        writer.discard()
        raise
    return counter.report()


async def stored_since(items: AsyncIterator[StoredItem], since: datetime | None) -> AsyncIterator[StoredItem]:
    """Yield the items stored at or after `since`; all items if it is None."""
    async for item in items:
        if since is None or item.stored_at >= since:
            yield item


async def batches(items: AsyncIterator[StoredItem]) -> AsyncIterator[list[StoredItem]]:
    """Group a stream of items into lists."""
    batch: list[StoredItem] = []
    async for item in items:
        batch.append(item)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


async def in_thread(call: Callable[..., None], *args: object) -> None:
    """Run a call in a thread. If cancelled, wait for it: a writer must not be used by two threads at once."""
    work = asyncio.create_task(asyncio.to_thread(call, *args))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


async def survey_items(items: Items, writer: Writer) -> int:
    """Show the writer all items; return their highest id."""
    last = 0
    async for batch in batches(items()):
        await in_thread(writer.survey, batch)
        last = max(last, batch[-1].id)
    return last


async def _write(items: Items, writer: Writer, counter: CountingWriter, last: int | None) -> None:
    async for batch in batches(items()):
        known = stored_until(batch, last)
        await in_thread(writer.write, known)
        counter.add(known)


def stored_until(items: list[StoredItem], last: int | None) -> list[StoredItem]:
    """Return the items up to this id: those stored after the survey may have other columns, and must wait."""
    return items if last is None else [item for item in items if item.id <= last]


POLL_INTERVAL = timedelta(milliseconds=500)
UNAVAILABLE_TIMEOUT, RETRY_INTERVAL = timedelta(seconds=30), timedelta(seconds=1)

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
    interval: timedelta = POLL_INTERVAL,
) -> Report:
    """Write items as they are stored until the run has ended or `stop` is set, then close the writer.

    `items` streams the items after an id; `ended` returns None while more may come, then the total
    number of items. The writer must be a live one, which keeps what it wrote before an error.
    Raises QueueError if the store was set back: new items may have the ids of those that were written.
    """
    follower = _Follower(items, writer, since)
    stop = stop or asyncio.Event()
    try:
        while (total := await ended()) is None and not stop.is_set():
            with suppress(QueueUnavailable):  # it may be back soon; only the last read must succeed
                await follower.write_new()
            await wait_for_event(stop, interval.total_seconds())
        await follower.finish(total)
        await in_thread(writer.close)
    except BaseException:
        writer.discard()
        raise
    return follower.counter.report(is_complete=total is not None)


class _Follower:
    """Writes new items, and remembers which ones it has seen."""

    def __init__(self, items: ItemsAfter, writer: Writer, since: datetime | None) -> None:
        self._items, self._writer, self._since = items, writer, since
        self._seen = array("q")  # sorted ids, eight bytes per item
        self._last: StoredItem | None = None  # of those seen
        self.counter = CountingWriter(writer)

    async def write_new(self) -> None:
        """Write the items after the last one seen; raises QueueError if that one is no longer there."""
        stream = self._items(self._last.id - 1 if self._last else 0)
        if self._last and not _is_same(self._last, await anext(stream, None)):
            raise QueueError(
                f"The queue no longer has item {self._last.id}, which was written: it was restored from a "
                "backup, or has lost its last writes. An export of the whole run replaces what was written."
            )
        async for batch in batches(stream):
            await self._write(batch)
            self._seen.extend(item.id for item in batch)
            self._last = batch[-1]

    async def finish(self, total: int | None) -> None:
        """Write the remaining items of a run that has ended with `total` items."""
        await self.write_new()
        if total is None or len(self._seen) >= total:
            return
        # A Redis Cluster, or a delayed settlement, may add an item below a higher id.
        async for batch in batches(self._items(0)):
            await self._write([item for item in batch if not is_among(self._seen, item.id)])

    async def _write(self, batch: list[StoredItem]) -> None:
        selected = [item for item in batch if self._since is None or item.stored_at >= self._since]
        if selected:
            await self._write_with_retry(selected)
            self.counter.add(selected)

    async def _write_with_retry(self, batch: list[StoredItem]) -> None:
        """Write, and retry while the server is unavailable; a live writer may get the same items twice."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + UNAVAILABLE_TIMEOUT.total_seconds()
        while True:
            try:
                return await in_thread(self._writer.write, batch)
            except ExportUnavailable as error:
                if clock() > deadline:
                    raise
                log.warning("Waiting for %s: %s", error.place, error.reason)
                await asyncio.sleep(RETRY_INTERVAL.total_seconds())


def _is_same(item: StoredItem, other: StoredItem | None) -> bool:
    known = (item.id, item.task_id, item.stored_at)
    return other is not None and known == (other.id, other.task_id, other.stored_at)


def is_among(ids: "array[int]", number: int) -> bool:
    """Return whether a number is among sorted ones."""
    index = bisect_left(ids, number)
    return index < len(ids) and ids[index] == number
