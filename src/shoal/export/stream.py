"""Items from a queue into a writer, a few at a time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import datetime

from shoal.core.model import StoredItem
from shoal.export.contract import Writer
from shoal.export.report import Report, Tally

BATCH = 500

Items = Callable[[], AsyncIterator[StoredItem]]


async def export(items: Items, writer: Writer) -> Report:
    """Write all items, close the writer, and return what was written; after an error it is discarded.

    `items` is called twice for a table, whose writer looks at all of them before it writes the first.
    """
    tally = Tally(writer)
    try:
        last = await _survey(items, writer) if writer.needs_survey else None
        await _write(items, writer, tally, last)
        await in_thread(writer.close)
    except BaseException:
        writer.discard()
        raise
    return tally.report()


async def stored_since(items: AsyncIterator[StoredItem], since: datetime | None) -> AsyncIterator[StoredItem]:
    """Yield the items that were stored at a moment or later; all of them when there is none."""
    async for item in items:
        if since is None or item.stored_at >= since:
            yield item


async def batches(items: AsyncIterator[StoredItem]) -> AsyncIterator[list[StoredItem]]:
    """Cut a stream of items into lists."""
    some: list[StoredItem] = []
    async for item in items:
        some.append(item)
        if len(some) == BATCH:
            yield some
            some = []
    if some:
        yield some


async def in_thread(call: Callable[..., None], *args: object) -> None:
    """Run a call in a thread, and when cancelled wait for its end: two must not use a writer at once."""
    work = asyncio.create_task(asyncio.to_thread(call, *args))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


async def _survey(items: Items, writer: Writer) -> int:
    """Show the writer all items, and return the highest id among them."""
    last = 0
    async for some in batches(items()):
        await in_thread(writer.survey, some)
        last = max(last, some[-1].id)
    return last


async def _write(items: Items, writer: Writer, tally: Tally, last: int | None) -> None:
    async for some in batches(items()):
        # Items that were stored since the survey wait for the next export.
        known = some if last is None else [item for item in some if item.id <= last]
        await in_thread(writer.write, known)
        tally.add(known)
