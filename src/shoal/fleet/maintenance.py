"""Upkeep of a queue while a fleet works: what is lost, expired or outdated is cleared without an operator."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from shoal.core.errors import QueueError
from shoal.core.model import MINUTE, SECOND
from shoal.core.tasks import watched
from shoal.queue.contract import Queue

TOPIC, KEY = "maintenance", "reclaim"
NOT_WITHIN = 10 * SECOND  # of the last reclaim, whichever machine of the fleet made it
KEPT = 10 * MINUTE
FIRST_AFTER = 5.0  # seconds at most
INTERVAL = (10.0, 30.0)  # seconds between two looks of one machine; random, so that machines don't meet

log = logging.getLogger(__name__)


@asynccontextmanager
async def maintained(queue: Queue) -> AsyncIterator[None]:
    """Call `reclaim` every now and then inside the block."""
    maintaining = watched(asyncio.create_task(_maintain(queue)))
    try:
        yield
    finally:
        maintaining.cancel()
        await asyncio.wait([maintaining])


async def reclaim_if_due(queue: Queue, *, not_within: timedelta = NOT_WITHIN) -> bool:
    """Call `reclaim` unless another machine has just done so; return whether it was called."""
    # By a note, so that a fleet of a thousand machines burdens its store no more than one machine does.
    last = (await queue.notes(TOPIC, [KEY])).get(KEY)
    if last is not None and last.age < not_within:
        return False
    if await queue.swap_note(TOPIC, KEY, b"", stamp=last.stamp if last else None, ttl=KEPT) is None:
        return False
    await queue.reclaim()
    return True


async def _maintain(queue: Queue) -> None:
    wait = random.uniform(0, FIRST_AFTER)
    while True:
        await asyncio.sleep(wait)
        wait = random.uniform(*INTERVAL)
        try:
            await reclaim_if_due(queue)
        except QueueError as error:
            log.warning("The queue could not be tidied: %s. Trying again in %.0f s.", error, wait)
        except Exception:
            log.exception("Tidying the queue failed. Trying again in %.0f s.", wait)
