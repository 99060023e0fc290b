"""The two roles of a cluster: a coordinator carries a run through, workers serve run after run."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from shoal.core.errors import QueueError, QueueUnavailable, RunConflict, ScraperBusy
from shoal.core.model import Run, RunState
from shoal.fleet import single
from shoal.fleet.crew import Crew, CrewEnding
from shoal.fleet.filling import Filling
from shoal.fleet.launch import Job, Summary, books_of, crew_of, lock_of, open_run
from shoal.fleet.lifecycle import end_at_budget
from shoal.fleet.metrics import CrewMetrics
from shoal.fleet.outlet import Outlet
from shoal.fleet.progress import Progress, Snapshot
from shoal.fleet.watch import metrics_of, seen_by
from shoal.fleet.whereabouts import hand_back, new_worker_id
from shoal.queue.contract import Queue
from shoal.worker.duties import beside
from shoal.worker.keeper import BEAT_EVERY
from shoal.worker.tally import Tally

LOOK_EVERY = 1.0
AFTER_FAILURE = 30.0
MOST_LOOKED_AT = 20  # runs of a scraper, the newest first
ROLE = "coordinator"
FILLING, WAITING, FINISHED = "filling", "waiting", "finished"


class Audience(Protocol):
    """Who is told how the runs of a cluster get on."""

    def joined(self, run: Run) -> None: ...
    def saw(self, snapshot: Snapshot) -> None: ...
    def said(self, text: str) -> None: ...


class Silent:
    """An audience that wants to hear nothing."""

    def joined(self, run: Run) -> None:
        """Ignore it."""

    def saw(self, snapshot: Snapshot) -> None:
        """Ignore it."""

    def said(self, text: str) -> None:
        """Ignore it."""


SILENT = Silent()


def filling_lock(queue: Queue, scraper: str, run_id: str | None = None) -> single.ScraperLock:
    """Return the lock that a coordinator holds."""
    return single.ScraperLock(queue, scraper, [single.FILLING], run_id=run_id)


async def run_to_coordinate(queue: Queue, job: Job, *, run_id: str | None, resume: bool) -> Run:
    """Return the run to carry through: the one named, the one that was cut short, or a new one."""
    if run_id or not resume:
        return await _marked(queue, await open_run(queue, job.scraper, run_id=run_id))
    if run := await _cut_short(queue, job.scraper.name):
        return run
    return await _marked(queue, await open_run(queue, job.scraper))


async def _marked(queue: Queue, run: Run) -> Run:
    """Mark a run as one of a coordinator at once, so that the next one knows it whatever happens."""
    await queue.beat(new_worker_id(), run_id=run.id, state="ended", info={"role": ROLE})
    return run


async def _cut_short(queue: Queue, scraper: str) -> Run | None:
    """Return the newest run of a scraper that a coordinator has begun, if none has come to its end.

    Other runs of the scraper are nobody's business here: somebody fills them, or works on them, by hand.
    A coordinator may die while it fills a run, and workers drain what is there: such a run looks finished.
    """
    states: dict[str, set[str]] = {}
    for worker in await queue.workers():
        if worker.info.get("role") == ROLE:
            states.setdefault(worker.run_id, set()).add(worker.state)
    mine = (run for run in await queue.runs() if run.scraper == scraper and run.id in states)
    run = next(mine, None)
    if run is None or run.state.has_ended:
        return None
    is_left = FINISHED not in states[run.id] or (await queue.stats(run.id)).remaining
    return run if is_left else None


@dataclass(slots=True)
class Coordinator:
    """Fills one run, waits until workers have drained it, and writes its items down."""

    queue: Queue
    job: Job
    run: Run
    audience: Audience
    results: str | None = None
    lock: single.ScraperLock | None = None  # for filling, held by whoever made the run
    _state: str = field(default=FILLING, init=False)

    async def carry_out(self, feed: Filling) -> Summary:
        """Return how the run ended; cancel it at any time, and start it again to go on."""
        began, me = time.monotonic(), new_worker_id()
        async with AsyncExitStack() as stack:
            stack.enter_context(books_of(self.job, self.run))
            lock = self.lock or filling_lock(self.queue, self.run.scraper, self.run.id)
            await stack.enter_async_context(lock)
            outlet = await stack.enter_async_context(Outlet(self.queue, self.run.id, self.results))
            before = (await self.queue.stats(self.run.id)).completed
            self.audience.joined(self.run)
            await self._mark(me, FILLING)
            await stack.enter_async_context(beside("The coordinator's heartbeat", self._beat(me)))
            enqueued = await self.queue.enqueue(self.run.id, feed, on_invalid=feed.invalid)
            await self._mark(me, WAITING)
            snapshot = await self._wait()
            await outlet.finish(snapshot.stats.items)
        await self._mark(me, FINISHED)
        return Summary(
            run=self.run,
            enqueued=enqueued,
            before=before,
            snapshot=snapshot,
            ending=CrewEnding(),
            seconds=time.monotonic() - began,
            refused=feed.refused,
        )

    async def _wait(self) -> Snapshot:
        progress = Progress(self.queue, self.run.id)
        while True:
            with suppress(QueueUnavailable):
                # The workers may be gone when the last of the pages is done.
                await end_at_budget(self.queue, self.run, self.job.scraper)
                snapshot = await progress.look()
                self.audience.saw(snapshot)
                if self._is_over(snapshot):
                    return await progress.look(last=True)
            await asyncio.sleep(LOOK_EVERY)

    def _is_over(self, snapshot: Snapshot) -> bool:
        return snapshot.is_over or not snapshot.stats.tasks

    async def _mark(self, me: str, state: str) -> None:
        self._state = state
        await self.queue.beat(me, run_id=self.run.id, state=state, info={"role": ROLE})

    async def _beat(self, me: str) -> None:
        """Say again and again that it is there, and what it does."""
        while True:
            await asyncio.sleep(BEAT_EVERY)
            with suppress(QueueError):
                await self._mark(me, self._state)


class Station:
    """Keeps a crew at work on the newest run of each scraper, and waits for the next ones.

    With `runs` it serves only those, and ends when they are drained.
    """

    def __init__(
        self,
        queue: Queue,
        jobs: Sequence[Job],
        audience: Audience = SILENT,
        *,
        runs: Sequence[str] = (),
        on_output: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._queue, self._audience = queue, audience
        self._jobs = [replace(job, joins=True) for job in jobs]
        self._runs, self._on_output = runs, on_output
        self._crews: set[Crew] = set()
        self._past, self._past_restarts = Tally(), 0  # of crews that have ended
        self._metrics = CrewMetrics(self)
        self._spent: set[str] = set()  # runs whose budget of pages is used up
        self._held = dict[str, str]()  # scrapers in single mode that another process works on, and who it is
        self._stops = 0
        self._stopping = asyncio.Event()

    @property
    def in_hand(self) -> int:
        """How many leases the workers hold."""
        return sum(crew.in_hand for crew in self._crews)

    @property
    def tally(self) -> Tally:
        """What all workers have done so far."""
        return sum((crew.tally for crew in self._crews), self._past)

    @property
    def restarts(self) -> int:
        """How many workers were started in the place of dead ones."""
        return sum((crew.restarts for crew in self._crews), self._past_restarts)

    @property
    def pids(self) -> list[int]:
        """The processes of the workers."""
        return [pid for crew in self._crews for pid in crew.pids]

    def stop(self) -> int:
        """Finish what is in hand; the second time hand it back, the third time kill. Return the count."""
        self._stops += 1
        self._stopping.set()
        for crew in self._crews:
            crew.stop()
        return self._stops

    async def serve(self) -> dict[str, CrewEnding]:
        """Work until stopped, or until the named runs are drained; return how each run's crew ended."""
        endings: dict[str, CrewEnding] = {}
        # One address for the whole station: its jobs are of one launcher, which was given one.
        address = next((job.metrics for job in self._jobs if job.metrics), None)
        async with metrics_of(address, self, self._audience.said) as self._metrics:
            if self._runs:
                pairs = [await self._named(run_id) for run_id in self._runs]
                await asyncio.gather(*(self._man(job, run, endings) for job, run in pairs))
            else:
                await asyncio.gather(*(self._attend(job, endings) for job in self._jobs))
        return endings

    async def _named(self, run_id: str) -> tuple[Job, Run]:
        run = await self._queue.run(run_id)
        for job in self._jobs:
            if job.scraper.name == run.scraper:
                return job, run
        known = ", ".join(sorted(job.scraper.name for job in self._jobs))
        advice = f"Name it: shoal start {run.scraper} --role worker --run {run_id}"
        raise RunConflict(run_id, f"belongs to scraper {run.scraper!r}; served here are {known}. {advice}")

    async def _attend(self, job: Job, endings: dict[str, CrewEnding]) -> None:
        """Serve the runs of one scraper, one after the other."""
        while not self._stops:
            run = await self._next(job)
            if run is None:
                await self._pause(LOOK_EVERY)
            else:
                await self._pause(await self._rest_after(job, run, endings))

    async def _rest_after(self, job: Job, run: Run, endings: dict[str, CrewEnding]) -> float:
        """Work on a run, and return how many seconds to wait before the next one."""
        name = job.scraper.name
        try:
            ending = await self._man(job, run, endings)
        except ScraperBusy as error:
            if self._held.get(name) != error.holder:
                self._held[name] = error.holder
                self._audience.said(str(error))
            return LOOK_EVERY
        self._held.pop(name, None)
        return AFTER_FAILURE if ending.failed else 0.0

    async def _next(self, job: Job) -> Run | None:
        """Return the newest run of a scraper that has work left."""
        try:
            runs = [run for run in await self._queue.runs() if run.scraper == job.scraper.name]
            for run in runs[:MOST_LOOKED_AT]:
                is_open = run.state is RunState.RUNNING and run.id not in self._spent
                if is_open and (await self._queue.stats(run.id)).remaining:
                    return run
        except QueueUnavailable as error:
            self._audience.said(str(error))
        return None

    async def _man(self, job: Job, run: Run, endings: dict[str, CrewEnding]) -> CrewEnding:
        async with lock_of(self._queue, job, run.id) as lock:
            ending = await self._crewed(job, run, lock)
        endings[run.id] = _added(endings.get(run.id), ending)
        if "budget" in ending.reasons:
            self._spent.add(run.id)
        for failure in ending.failures:
            self._audience.said(f"Could not work on run {run.id}: {failure}")
        return ending

    async def _crewed(self, job: Job, run: Run, lock: single.ScraperLock) -> CrewEnding:
        with suppress(QueueError):
            await hand_back(self._queue, run)
        with books_of(job, run) as logs:
            told, printed = self._audience.said, self._on_output
            crew = crew_of(self._queue, job, run, logs, lock=lock, on_event=told, on_output=printed)
            return await self._employed(crew, job, run)

    async def _employed(self, crew: Crew, job: Job, run: Run) -> CrewEnding:
        """Have a crew work on a run, and return how that ended."""
        self._crews.add(crew)
        for _ in range(self._stops):  # that came while it was made ready
            crew.stop()
        self._audience.joined(run)
        try:
            async with seen_by(self._metrics, self._queue, run) if job.metrics else nullcontext():
                return await crew.run()
        finally:
            self._crews.discard(crew)
            self._past += crew.tally
            self._past_restarts += crew.restarts

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()


def _added(before: CrewEnding | None, ending: CrewEnding) -> CrewEnding:
    """Return the endings of two crews of one run as one: a run may be drained more than once."""
    if before is None:
        return ending
    failures = [*before.failures, *ending.failures]
    return CrewEnding([*before.reasons, *ending.reasons], failures, before.tally + ending.tally)
