"""Items from a queue into a writer, a few at a time."""

import asyncio
from collections.abc import AsyncIterator, Callable

from shoal.core.model import StoredItem
from shoal.export.contract import Writer

BATCH = 500

Items = Callable[[], AsyncIterator[StoredItem]]


async def export(items: Items, writer: Writer) -> int:
    """Write all items, close the writer, and return how many there were; after an error it is discarded.

    `items` is called twice for a table, whose writer looks at all of them before it writes the first.
    """
    try:
        last = await _survey(items, writer) if writer.needs_survey else None
        count = await _write(items, writer, last)
        await _in_thread(writer.close)
    except BaseException:
        writer.discard()
        raise
    return count


async def _survey(items: Items, writer: Writer) -> int:
    """Show the writer all items, and return the highest id among them."""
    last = 0
    async for some in _batches(items()):
        await _in_thread(writer.survey, some)
        last = max(last, some[-1].id)
    return last


async def _write(items: Items, writer: Writer, last: int | None) -> int:
    count = 0
    async for some in _batches(items()):
        # Items that were stored since the survey wait for the next export.
        known = some if last is None else [item for item in some if item.id <= last]
        await _in_thread(writer.write, known)
        count += len(known)
    return count


async def _in_thread(call: Callable[..., None], *args: object) -> None:
    """Run a call in a thread, and when cancelled wait for its end: two must not use a writer at once."""
    work = asyncio.create_task(asyncio.to_thread(call, *args))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


async def _batches(items: AsyncIterator[StoredItem]) -> AsyncIterator[list[StoredItem]]:
    some: list[StoredItem] = []
    async for item in items:
        some.append(item)
        if len(some) == BATCH:
            yield some
            some = []
    if some:
        yield some
