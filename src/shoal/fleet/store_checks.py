"""Checks the store of a run: whether workers can use it, and whether it deletes data when it is full."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from shoal.core.errors import QueueError
from shoal.core.values import counted
from shoal.queue.contract import QueueReports


@asynccontextmanager
async def checked_store(queue: QueueReports, say: Callable[[str], None]) -> AsyncIterator[None]:
    """Warn now if the store may delete data, and at the end if it has done so inside the block.

    Raises QueueError if no worker could use it.
    """
    await queue.check_for_workers()
    before = await queue.evictions()
    if before:
        say(f"This run may lose tasks and results without an error. {before.text}")
    try:
        yield
    finally:
        with suppress(QueueError):
            after = await queue.evictions()
            lost = after.count - (before.count if before else 0) if after else 0
            if after and lost > 0:
                say(
                    f"{counted(lost, 'key')} of the queue's server {'was' if lost == 1 else 'were'} evicted "
                    "during this run. Its counts and results may be incomplete: compare them with your source"
                )
