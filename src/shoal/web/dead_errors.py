"""The error classes of a run's dead letters with their counts: read when they change, and not too often."""

import time
from collections import Counter, OrderedDict
from dataclasses import dataclass

from shoal.queue.contract import QueueReports

MAX_CLASSIFIED = 500  # letters that the counts cover
MAX_RUNS = 50  # whose counts are kept
MIN_AGE_SECONDS, MAX_AGE_SECONDS = 5.0, 60.0  # counts are not read again sooner, nor shown longer


@dataclass(frozen=True, slots=True)
class DeadErrors:
    """Error classes and counts, the most frequent first."""

    classes: tuple[tuple[str, int], ...] = ()
    is_cut: bool = False  # whether only the first `MAX_CLASSIFIED` letters were counted


class DeadErrorReader:
    """Reads the error classes of the runs that are looked at."""

    def __init__(self, queue: QueueReports) -> None:
        self._queue = queue
        self._known: OrderedDict[str, tuple[float, int, DeadErrors]] = OrderedDict()

    async def read(self, run_id: str, dead: int) -> DeadErrors:
        """Return the error classes of a run that has this many dead letters."""
        if not dead:
            return DeadErrors()
        read_at, count, found = self._known.get(run_id, (float("-inf"), -1, DeadErrors()))
        age = time.monotonic() - read_at
        if age < MIN_AGE_SECONDS or (count == dead and age < MAX_AGE_SECONDS):
            return found
        found = await self._count(run_id)
        self._known[run_id] = time.monotonic(), dead, found
        self._known.move_to_end(run_id)
        while len(self._known) > MAX_RUNS:
            self._known.popitem(last=False)
        return found

    async def _count(self, run_id: str) -> DeadErrors:
        counts: Counter[str] = Counter()
        async for letter in self._queue.dead(run_id):
            counts[class_of(letter.error)] += 1
            if counts.total() >= MAX_CLASSIFIED:
                return DeadErrors(tuple(counts.most_common()), is_cut=True)
        return DeadErrors(tuple(counts.most_common()))


def class_of(error: str) -> str:
    """Return the class name at the start of an error, else its first words."""
    name, colon, _ = error.partition(":")
    return name if colon and name.isidentifier() else error[:60]
