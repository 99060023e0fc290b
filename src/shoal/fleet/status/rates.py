"""The rate of a run over time, stored in the queue: a few hundred points, however long the run is.

Worker pools write it, coordinated by the note's age: many pools write no more than one does.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import msgspec

from shoal.core.errors import QueueError
from shoal.core.tasks import watched
from shoal.queue.contract import Queue, SharedNotes

TOPIC = "run rates"  # a note for each run
RATES_TTL = timedelta(days=365)
FIRST_INTERVAL_SECONDS = 2.0  # between two points; it doubles whenever there are MAX_POINTS
MAX_POINTS = 240
GAP = 3  # intervals without a point that a chart shows as a gap
MIN_GAP = 20.0  # seconds
MIN_SPAN = 5.0  # seconds over which the current rate is computed, at least
END_TIMEOUT = timedelta(seconds=2)  # for the last point

log = logging.getLogger(__name__)


class RateHistory(msgspec.Struct):
    """How many tasks had ended at points in time."""

    interval: float = FIRST_INTERVAL_SECONDS
    points: list[tuple[float, int]] = []  # Unix time in seconds, and tasks that have ended

    def add(self, at: float, ended: int) -> None:
        """Add a point; if there are too many, drop every second one and double the interval."""
        self.points.append((round(at, 1), ended))
        if len(self.points) > MAX_POINTS:
            self.interval *= 2
            self.points = [*self.points[:-1:2], self.points[-1]]

    @property
    def gap(self) -> float:
        """The seconds without a point after which no pool is at work."""
        return max(MIN_GAP, GAP * self.interval)

    def rates(self) -> list[tuple[float, float | None]]:
        """Return times and tasks ended per second; None where no pool was at work."""
        if not self.points:
            return []
        gap = self.gap
        found: list[tuple[float, float | None]] = [(self.points[0][0], None)]
        for (before, then), (at, ended) in pairwise(self.points):
            if at - before > gap:
                found += [(before + 0.1, None), (at, None)]
            elif at > before:
                # Replayed dead letters have not ended any more.
                found.append((at, round(max(ended - then, 0) / (at - before), 2)))
        return found


async def read_rates(queue: SharedNotes, run_id: str) -> RateHistory:
    """Return the rates of a run; empty if no pool has stored any."""
    note = (await queue.notes(TOPIC, [run_id])).get(run_id)
    return _decode(note.value) if note else RateHistory()


async def recent_rate(queue: SharedNotes, run_id: str, ended: int) -> float | None:
    """Return the tasks that end per second, given how many have ended now; None if no pool stored it."""
    note = (await queue.notes(TOPIC, [run_id])).get(run_id)
    history = _decode(note.value) if note else RateHistory()
    if note is None or not history.points or note.age.total_seconds() > history.gap:
        return None
    newest, age = history.points[-1][0], note.age.total_seconds()
    spans = ((newest - at + age, done) for at, done in reversed(history.points))
    for seconds, done in spans:
        if seconds >= MIN_SPAN:
            return max(ended - done, 0) / seconds
    return None


async def forget_rates(queue: SharedNotes, run_id: str) -> None:
    """Remove the rates of a run."""
    await queue.write_notes(TOPIC, {run_id: None})


async def add_rate(queue: Queue, run_id: str, *, is_last: bool = False) -> float:
    """Add a point unless another pool has just done so, and return the interval until the next one."""
    note = (await queue.notes(TOPIC, [run_id])).get(run_id)
    history = _decode(note.value) if note else RateHistory()
    if note and note.age.total_seconds() < history.interval and not is_last:
        return history.interval
    stats = await queue.stats(run_id)
    # The store's clock, by the age of the note: the clocks of machines differ.
    at = history.points[-1][0] + note.age.total_seconds() if note else datetime.now(UTC).timestamp()
    history.add(at, stats.completed + stats.dead)
    value = msgspec.json.encode(history)
    await queue.swap_note(TOPIC, run_id, value, stamp=note.stamp if note else None, ttl=RATES_TTL)
    return history.interval


@asynccontextmanager
async def recorded_rates(queue: Queue, run_id: str) -> AsyncIterator[None]:
    """Store the rate of a run periodically inside the block."""
    recording = watched(asyncio.create_task(_record(queue, run_id)))
    try:
        yield
    finally:
        recording.cancel()
        await asyncio.wait([recording])
        try:
            async with asyncio.timeout(END_TIMEOUT.total_seconds()):
                await add_rate(queue, run_id, is_last=True)
        except (QueueError, TimeoutError) as error:
            log.debug("The last rate of run %s is not stored: %s", run_id, error)


async def _record(queue: Queue, run_id: str) -> None:
    interval = FIRST_INTERVAL_SECONDS
    while True:
        try:
            interval = await add_rate(queue, run_id)
        except QueueError as error:
            log.debug("The rate of run %s is not stored: %s", run_id, error)
        except Exception:
            log.exception("Storing the rate of run %s failed. Trying again.", run_id)
        # Mostly another pool has stored the point by then.
        await asyncio.sleep(interval * random.uniform(1.0, 2.0))


_decode = msgspec.json.Decoder(RateHistory).decode
