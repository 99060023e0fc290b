"""Maintenance of a queue while a fleet works: clears lost, expired and outdated entries automatically."""

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
MIN_INTERVAL = 10 * SECOND  # since the last reclaim by any machine of the fleet
NOTE_TTL = 10 * MINUTE
MAX_FIRST_DELAY_SECONDS = 5.0
# Between two attempts; random, so that machines do not collide.
ATTEMPT_INTERVAL_SECONDS = (10.0, 30.0)

log = logging.getLogger(__name__)


@asynccontextmanager
async def maintained(queue: Queue) -> AsyncIterator[None]:
    """Call `reclaim` periodically inside the block."""
    maintaining = watched(asyncio.create_task(_maintain(queue)))
    try:
        yield
    finally:
        maintaining.cancel()
        await asyncio.wait([maintaining])


async def reclaim_if_due(queue: Queue, *, min_interval: timedelta = MIN_INTERVAL) -> bool:
    """Call `reclaim` unless another machine has just done so; return whether it was called."""
    # Coordinated by a note, so that a thousand machines load the store no more than one does.
    last = (await queue.notes(TOPIC, [KEY])).get(KEY)
    if last is not None and last.age < min_interval:
        return False
    if await queue.swap_note(TOPIC, KEY, b"", stamp=last.stamp if last else None, ttl=NOTE_TTL) is None:
        return False
    await queue.reclaim()
    return True


async def _maintain(queue: Queue) -> None:
    wait = random.uniform(0, MAX_FIRST_DELAY_SECONDS)
    while True:
        await asyncio.sleep(wait)
        wait = random.uniform(*ATTEMPT_INTERVAL_SECONDS)
        try:
            await reclaim_if_due(queue)
        except QueueError as error:
            log.warning("Queue maintenance failed: %s. Retrying in %.0f s.", str(error).rstrip("."), wait)
        except Exception:
            log.exception("Queue maintenance failed. Retrying in %.0f s.", wait)
