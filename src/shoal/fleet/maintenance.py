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


async def reclaim_if_due(
    queue: Queue, *, min_interval: timedelta = MIN_INTERVAL, seen: int | None = None
) -> int | None:
    """Call `reclaim` unless another machine has just done so; return the stamp of the note about it.

    `seen` is the stamp that the note had `min_interval` ago. If it still has it, nobody has reclaimed since,
    whatever its age is: that stays zero for long after the store's clock was set back.
    """
    # Coordinated by a note, so that a thousand machines load the store no more than one does.
    last = (await queue.notes(TOPIC, [KEY])).get(KEY)
    if last is not None and last.age < min_interval and last.stamp != seen:
        return last.stamp
    note = await queue.swap_note(TOPIC, KEY, b"", stamp=last.stamp if last else None, ttl=NOTE_TTL)
    if note is None:
        return None
    await queue.reclaim()
    return note.stamp


async def _maintain(queue: Queue) -> None:
    wait = random.uniform(0, MAX_FIRST_DELAY_SECONDS)
    stamp: int | None = None
    while True:
        await asyncio.sleep(wait)
        wait = random.uniform(*ATTEMPT_INTERVAL_SECONDS)
        try:
            stamp = await reclaim_if_due(queue, seen=stamp)
        except QueueError as error:
            log.warning("Queue maintenance failed: %s. Retrying in %.0f s.", str(error).rstrip("."), wait)
        except Exception:
            log.exception("Queue maintenance failed. Retrying in %.0f s.", wait)
