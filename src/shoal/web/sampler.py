"""One look at the queue for everybody who watches, and no look when nobody does."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from shoal.core.errors import QueueError, UnknownRun
from shoal.core.redact import redacted
from shoal.fleet.overview import Glances, Overview
from shoal.fleet.progress import Progress, Snapshot
from shoal.queue.contract import Queue
from shoal.web.history import History, Point

log = logging.getLogger(__name__)

EVERY = timedelta(seconds=2)
REST_AFTER = timedelta(seconds=30)  # that nobody asked
PATIENCE = 5.0  # seconds that one look may take before people are told
FLEET = ""  # the key of the history of all runs together
MOST_HISTORIES = 50
NEVER = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The queue at one moment; with `trouble` it did not answer, and the overview is the last one known."""

    at: datetime
    overview: Overview = field(default_factory=Overview)
    watched: Mapping[str, Snapshot] = field(default_factory=dict)  # older runs that somebody looks at
    trouble: str = ""

    def snapshot(self, run_id: str) -> Snapshot | None:
        """Return how a run is, if it was looked at."""
        for one in self.overview.runs:
            if one.run.id == run_id:
                return one
        return self.watched.get(run_id)


class Sampler:
    """Looks at a queue again and again for as long as somebody watches.

    `run` keeps it going. `close` ends every stream of samples: call it as soon as the server is told to stop,
    for a server that waits for its clients first would wait for ever.
    """

    def __init__(self, queue: Queue, every: timedelta = EVERY) -> None:
        self._queue, self._every = queue, every
        self._glances = Glances(queue)
        self._latest = Sample(at=NEVER)
        self._histories: dict[str, History] = {}
        self._watched: dict[str, tuple[Progress, float]] = {}
        self._asked_at = float("-inf")
        self._asked, self._new = asyncio.Event(), asyncio.Event()
        self._looking = asyncio.Lock()
        self._is_expired = False
        self.is_closed = False
        self.looks = 0
        self.clients = 0  # streams that are open

    @property
    def latest(self) -> Sample:
        """The last sample, however old; asking keeps the sampler going."""
        self._ask()
        return self._latest

    @property
    def every(self) -> timedelta:
        """How long it waits between two looks."""
        return self._every

    def history(self, run_id: str = FLEET) -> list[Point]:
        """Return the last hour of a run, or of all runs together, as far as somebody watched."""
        found = self._histories.get(run_id)
        return found.points() if found else []

    def new_errors(self, within: timedelta) -> int:
        """Return how many errors the workers met within a while, as far as somebody watched."""
        found = self._histories.get(FLEET)
        return found.new_errors(self._latest.at, within) if found else 0

    async def fresh(self, run_id: str | None = None) -> Sample:
        """Return a sample that is not older than two looks apart, and that has the run in it if one is named.

        Raises UnknownRun.
        """
        self._ask()
        if run_id is not None:
            await self._watch(run_id)
        async with self._looking:
            old = self._is_expired or datetime.now(UTC) - self._latest.at > 2 * self._every
            lacks = run_id is not None and self._latest.snapshot(run_id) is None
            if old or (lacks and not self._latest.trouble):
                await self._look()
        return self._latest

    def expire(self) -> None:
        """Have the next page look for itself: somebody has just changed something."""
        self._is_expired = True

    async def after(self, seen: Sample) -> Sample | None:
        """Return the next sample once there is one; None when there will be no more."""
        while self._latest is seen and not self.is_closed:
            self._ask()
            with suppress(TimeoutError):
                # Woken now and then to say that somebody still watches.
                async with asyncio.timeout(REST_AFTER.total_seconds() / 2):
                    await self._new.wait()
        return None if self.is_closed else self._latest

    async def samples(self, run_id: str | None = None) -> AsyncIterator[Sample]:
        """Yield the latest sample and then each new one, until the sampler is closed."""
        sample: Sample | None = await self.fresh(run_id)
        while sample is not None:
            yield sample
            if run_id is not None:
                self.keep(run_id)
            sample = await self.after(sample)

    def keep(self, run_id: str) -> None:
        """Say that somebody watches a run, which must be there: it may grow too old for the overview."""
        progress, _ = self._watched.get(run_id, (None, 0.0))
        self._watched[run_id] = progress or Progress(self._queue, run_id), time.monotonic()

    async def run(self) -> None:
        """Look at the queue while somebody watches, until closed or cancelled."""
        while not self.is_closed:
            await self._until_asked()
            async with self._looking:
                await self._look()
            await asyncio.sleep(self._every.total_seconds())

    def close(self) -> None:
        """End every stream of samples."""
        self.is_closed = True
        self._asked.set()
        self._tell()

    async def _until_asked(self) -> None:
        while time.monotonic() - self._asked_at > REST_AFTER.total_seconds() and not self.is_closed:
            self._asked.clear()
            await self._asked.wait()

    def _ask(self) -> None:
        self._asked_at = time.monotonic()
        self._asked.set()

    def _tell(self) -> None:
        # Whoever waits is woken, and whoever comes later waits for the next one.
        self._new.set()
        self._new = asyncio.Event()
        if self.is_closed:
            self._new.set()

    async def _look(self) -> None:
        self.looks += 1
        self._is_expired = False
        now = datetime.now(UTC)
        try:
            async with asyncio.timeout(PATIENCE):
                overview = await self._glances.look()
                self._latest = Sample(
                    at=now, overview=overview, watched=await self._look_at_watched(overview)
                )
            self._remember()
        except TimeoutError:
            self._latest = replace(self._latest, at=now, trouble="The queue does not answer.")
        except QueueError as error:
            self._latest = replace(self._latest, at=now, trouble=redacted(str(error)))
        except Exception as error:
            # The next look may succeed; pages that show old numbers for ever would look alive.
            log.exception("The queue could not be looked at.")
            trouble = redacted(f"{type(error).__name__}: {error}")
            self._latest = replace(self._latest, at=now, trouble=trouble)
        self._tell()

    async def _watch(self, run_id: str) -> None:
        """Have a run in the next samples; raises UnknownRun."""
        if run_id not in self._watched and self._latest.snapshot(run_id) is None:
            await self._queue.run(run_id)
        self.keep(run_id)

    async def _look_at_watched(self, overview: Overview) -> dict[str, Snapshot]:
        known = {one.run.id for one in overview.runs}
        oldest = time.monotonic() - REST_AFTER.total_seconds()
        self._watched = {run_id: seen for run_id, seen in self._watched.items() if seen[1] >= oldest}
        found: dict[str, Snapshot] = {}
        for run_id in self._watched.keys() - known:
            with suppress(UnknownRun):  # purged meanwhile
                found[run_id] = await self._watched[run_id][0].look()
        return found

    def _remember(self) -> None:
        at, seen = self._latest.at.timestamp(), self._latest
        snapshots = [*seen.overview.runs, *seen.watched.values()]
        points = {one.run.id: _point(at, one) for one in snapshots}
        self._history_of(FLEET).add(_sum(at, list(points.values()), sum(seen.overview.errors.values())))
        for run_id, point in points.items():
            self._history_of(run_id).add(point)
        for run_id in sorted(self._histories, key=lambda key: -self._histories[key].last_at)[MOST_HISTORIES:]:
            del self._histories[run_id]

    def _history_of(self, run_id: str) -> History:
        return self._histories.setdefault(run_id, History())


def errors_of_run(overview: Overview, run_id: str) -> dict[str, int]:
    """Return the errors by class that the workers of a run have met, the most frequent first."""
    total: Counter[str] = Counter()
    for worker in overview.workers:
        if worker.run_id == run_id and isinstance(found := worker.info.get("errors"), Mapping):
            total.update(found)
    return dict(total.most_common())


def _point(at: float, one: Snapshot) -> Point:
    stats = one.stats
    return Point(at, one.rate, stats.completed, stats.pending + stats.delayed, stats.dead)


def _sum(at: float, points: list[Point], errors: int) -> Point:
    rate = sum(point.rate for point in points)
    counts = [sum(point[index] for point in points) for index in (2, 3, 4)]
    return Point(at, rate, int(counts[0]), int(counts[1]), int(counts[2]), errors)
