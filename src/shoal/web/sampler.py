"""Samples the queue once for all viewers, and not at all while there are none."""

import asyncio
import logging
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from shoal.core.errors import QueueError, UnknownRun
from shoal.core.redact import redacted
from shoal.fleet.status.overview import Overview, OverviewReader
from shoal.fleet.status.progress import ProgressReader, Snapshot
from shoal.queue.contract import Queue, QueueReports

HISTORY_SPAN = timedelta(hours=1)
MAX_POINTS = 3_600  # whatever the sample interval
GAP = 20.0  # seconds without a sample that a chart shows as a gap

MAX_CLASSIFIED = 500  # letters that the counts cover
MAX_RUNS = 50  # whose counts are kept
MIN_AGE_SECONDS, MAX_AGE_SECONDS = 5.0, 60.0  # counts are not read again sooner, nor shown longer

log = logging.getLogger(__name__)

SAMPLE_INTERVAL = timedelta(seconds=2)
IDLE_TIMEOUT = timedelta(seconds=30)  # without viewers; then sampling stops
SAMPLE_TIMEOUT = timedelta(seconds=5)  # until a sample counts as failed
NEVER = datetime.fromtimestamp(0, UTC)


Point = tuple[float, float]  # a Unix time in seconds, and a rate
RatePoint = tuple[float, float | None]  # the same; None where the chart has a gap


def chart(points: Sequence[Point]) -> list[RatePoint]:
    """Return what a chart shows of points.

    A gap has no rate, and neither has the first point: a rate needs two samples.
    """
    found = list[RatePoint]()
    for at, rate in points:
        if found and at - found[-1][0] > GAP:
            found.append((found[-1][0] + GAP / 2, None))
        found.append((at, round(rate, 2) if found else None))
    return found


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The queue at one moment; with `error` it did not respond, and the overview is the last known one."""

    at: datetime
    overview: Overview = field(default_factory=Overview)
    watched: Mapping[str, Snapshot] = field(default_factory=dict)  # older runs that have viewers
    error: str = ""

    def snapshot(self, run_id: str) -> Snapshot | None:
        """Return the snapshot of a run, if the sample has it."""
        for snapshot in self.overview.runs:
            if snapshot.run.id == run_id:
                return snapshot
        return self.watched.get(run_id)


class Sampler:
    """Samples a queue at an interval while it has viewers.

    `run` is the loop. `close` ends every stream of samples: call it as soon as the server starts to stop,
    because a server that waits for its clients first would wait forever.
    """

    def __init__(self, queue: Queue, interval: timedelta = SAMPLE_INTERVAL) -> None:
        self._queue, self._interval = queue, interval
        self._overview_reader = OverviewReader(queue)
        self._latest = Sample(at=NEVER)
        self._rates: deque[Point] = deque(maxlen=MAX_POINTS)  # of all runs together
        self._watched: dict[str, tuple[ProgressReader, float]] = {}
        self._touched_at = float("-inf")
        self._touched, self._new = asyncio.Event(), asyncio.Event()
        self._sampling = asyncio.Lock()
        self._is_expired = False
        self.is_closed = False
        self.sample_count = 0
        self.clients = 0  # open streams

    @property
    def latest(self) -> Sample:
        """The last sample, however old; reading it counts as viewing."""
        self._touch()
        return self._latest

    def history(self) -> list[Point]:
        """Return the rate of all runs together in the last hour, as far as it was sampled; oldest first."""
        oldest = self._latest.at.timestamp() - HISTORY_SPAN.total_seconds()
        return [point for point in self._rates if point[0] >= oldest]

    async def fresh_sample(self, run_id: str | None = None) -> Sample:
        """Return a sample at most two intervals old, with the given run in it.

        Raises UnknownRun.
        """
        self._touch()
        if run_id is not None:
            await self._add_watched(run_id)
        async with self._sampling:
            is_old = self._is_expired or datetime.now(UTC) - self._latest.at > 2 * self._interval
            is_missing = run_id is not None and self._latest.snapshot(run_id) is None
            if is_old or (is_missing and not self._latest.error):
                await self._take_sample()
        return self._latest

    def expire(self) -> None:
        """Make the next page take a new sample: something has just changed."""
        self._is_expired = True

    async def next_sample(self, seen: Sample) -> Sample | None:
        """Wait for the next sample; None after the sampler is closed."""
        while self._latest is seen and not self.is_closed:
            self._touch()
            with suppress(TimeoutError):
                # Wakes up now and then to mark that there is still a viewer.
                async with asyncio.timeout(IDLE_TIMEOUT.total_seconds() / 2):
                    await self._new.wait()
        return None if self.is_closed else self._latest

    def keep_watched(self, run_id: str) -> None:
        """Mark that an existing run has a viewer: it may become too old for the overview."""
        progress, _ = self._watched.get(run_id, (None, 0.0))
        progress = progress or ProgressReader(self._queue, run_id, with_hosts=False)
        self._watched[run_id] = progress, time.monotonic()

    async def run(self) -> None:
        """Sample the queue while there are viewers, until closed or cancelled."""
        while not self.is_closed:
            await self._wait_for_viewer()
            async with self._sampling:
                # A viewer may just have taken one: the rate between two samples in a row is any number.
                if datetime.now(UTC) - self._latest.at >= self._interval:
                    await self._take_sample()
            await asyncio.sleep(self._interval.total_seconds())

    def close(self) -> None:
        """End every stream of samples."""
        self.is_closed = True
        self._touched.set()
        self._notify()

    async def _wait_for_viewer(self) -> None:
        while time.monotonic() - self._touched_at > IDLE_TIMEOUT.total_seconds() and not self.is_closed:
            self._touched.clear()
            await self._touched.wait()

    def _touch(self) -> None:
        self._touched_at = time.monotonic()
        self._touched.set()

    def _notify(self) -> None:
        # Wake the current waiters; later ones wait for the next sample.
        self._new.set()
        self._new = asyncio.Event()
        if self.is_closed:
            self._new.set()

    async def _take_sample(self) -> None:
        self.sample_count += 1
        self._is_expired = False
        now = datetime.now(UTC)
        try:
            async with asyncio.timeout(SAMPLE_TIMEOUT.total_seconds()):
                overview = await self._overview_reader.read()
                self._latest = Sample(at=now, overview=overview, watched=await self._read_watched(overview))
            self._rates.append((now.timestamp(), sum(one.rate for one in overview.runs)))
        except TimeoutError:
            self._latest = replace(self._latest, at=now, error="The queue does not respond.")
        except QueueError as error:
            self._latest = replace(self._latest, at=now, error=redacted(str(error)))
        except Exception as error:
            # The next sample may succeed. Without an error, pages with old numbers would look current.
            log.exception("Sampling the queue failed.")
            self._latest = replace(self._latest, at=now, error=redacted(f"{type(error).__name__}: {error}"))
        self._notify()

    async def _add_watched(self, run_id: str) -> None:
        """Include a run in the next samples; raises UnknownRun."""
        if run_id not in self._watched and self._latest.snapshot(run_id) is None:
            await self._queue.run(run_id)
        self.keep_watched(run_id)

    async def _read_watched(self, overview: Overview) -> dict[str, Snapshot]:
        known = {snapshot.run.id for snapshot in overview.runs}
        oldest = time.monotonic() - IDLE_TIMEOUT.total_seconds()
        self._watched = {run_id: seen for run_id, seen in self._watched.items() if seen[1] >= oldest}
        found: dict[str, Snapshot] = {}
        for run_id in self._watched.keys() - known:
            with suppress(UnknownRun):  # purged in the meantime
                found[run_id] = await self._watched[run_id][0].read()
        return found
