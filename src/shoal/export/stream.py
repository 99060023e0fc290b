"""Streams items from a queue to a writer in batches."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import datetime

from shoal.core.model import StoredItem
from shoal.export.contract import Writer
from shoal.export.report import CountingWriter, Report

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
