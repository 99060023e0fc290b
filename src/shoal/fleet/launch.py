"""Carrying out a run on this machine: make it or go on with it, enqueue, work, and tell how it went."""

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

from shoal.core.errors import InvalidSetting, InvalidTask, QueueError, RunConflict
from shoal.core.events import SAID, Level
from shoal.core.model import MINUTE, ZERO, EnqueueReport, Run, Task
from shoal.core.tasks import restarted, watched
from shoal.fleet.again import Comparison, compared
from shoal.fleet.crew import Crew, CrewEnding
from shoal.fleet.lifecycle import end_at_budget, reopened
from shoal.fleet.logs import NO_LIBRARY, Library, LogPlan
from shoal.fleet.metrics import CrewMetrics
from shoal.fleet.outlet import Outlet
from shoal.fleet.progress import Progress, Snapshot, links_as_json
from shoal.fleet.single import FILLING, WORKING, ScraperLock
from shoal.fleet.timeup import within
from shoal.fleet.watch import LOOK_EVERY, logs_of, metrics_of
from shoal.fleet.whereabouts import hand_back
from shoal.queue.contract import Queue, Tasks
from shoal.scrape.scraper import SEED_STEP, Scraper
from shoal.worker.calls import Listening
from shoal.worker.hiding import all_secrets
from shoal.worker.keeper import StepLimit
from shoal.worker.line import Order
from shoal.worker.nursery import Nursery
from shoal.worker.places import AT_ONCE, SLOW_REQUESTS
from shoal.worker.rendering import sandbox_notice
from shoal.worker.room import MOST_BYTES
from shoal.worker.share import HEARTBEAT, Sharing

# A keeper extends what its worker holds, so a short lease suits a long step too: it is how long the tasks of
# a machine that vanished are waited for.
LEASE = MINUTE
MODES = ("auto", "exclusive")
FETCHES = 4  # that one task may need


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is to be run, and with what."""

    scraper: Scraper
    name: str  # as it was typed: FILE[:NAME], or a name in the project file
    reference: str  # where the workers of this machine find it: FILE[:NAME]
    queue_url: str
    overrides: dict[str, Any] = field(default_factory=dict)  # settings that differ from those in its file
    typed: dict[str, Any] = field(default_factory=dict)  # those among them that were typed
    workers: int = 1
    at_once: int | None = None  # requests in flight of each worker, and steps that run; None: AT_ONCE
    slow_requests: int | None = None  # beyond them; None: SLOW_REQUESTS, or none where `at_once` is given
    batch: int = 50
    memory: int = MOST_BYTES
    steps: list[str] | None = None
    partitions: list[str] | None = None  # or the one word `auto` or `exclusive`: by a plan
    homes: dict[str, int] = field(
        default_factory=dict
    )  # a written plan: the worker's number of each partition
    heartbeat: timedelta = HEARTBEAT
    logs: LogPlan | None = None
    metrics: tuple[str, int] | None = None  # the address at which they are served
    trace: bool = False
    listening: Listening | None = None  # its workers handle what callers bring, and claim nothing
    stagger: timedelta = ZERO  # between the starts of two workers
    span: timedelta | None = None  # for which they work at most
    nursery: Nursery | None = None  # for the one launch of this job; without it, one is started
    joins: bool = False  # works on a run that others may work on at the same time

    def order(self, run: Run) -> Order:
        """Return what each worker is told."""
        return Order(
            queue=self.queue_url,
            run_id=run.id,
            worker_id="",
            scraper=self.reference,
            overrides=self.overrides,
            lease=min(self.scraper.settings.lease, LEASE),
            at_most_once=self.scraper.has_at_most_once,
            at_once=self.at_once or AT_ONCE,
            slow_requests=self._slow_requests,
            batch=self.batch,
            memory=self.memory,
            steps=self.steps,
            partitions=self.partitions if self.sharing is None else None,
            sharing=self.sharing,
            log_level=self.logs.level if self.logs else Level.OFF,
            measure=self.metrics is not None,
            trace=self.trace,
            listening=self.listening,
        )

    @property
    def _slow_requests(self) -> int:
        if self.slow_requests is not None:
            return self.slow_requests
        # Whoever says how many there are to be at once means it.
        return SLOW_REQUESTS if self.at_once is None else 0

    @property
    def sharing(self) -> Sharing | None:
        """How its workers share out the partitions by a plan; None where there is no plan."""
        word = self.partitions[0] if self.partitions and len(self.partitions) == 1 else None
        if word not in MODES:
            return None
        return Sharing(exclusive=word == "exclusive", homes=self.homes, heartbeat=self.heartbeat)

    def limits(self) -> dict[str, StepLimit]:
        """Return how long each step may take and how often it is tried; seeds may name no step."""
        settings, found = self.scraper.settings, {}
        pause = settings.pause[1] if settings.pause else ZERO
        for name, step in self.scraper.steps.items():
            span = step.lease or settings.lease
            # robots.txt, a login and redirects have the same time each as the page.
            whole = FETCHES * (step.timeout or settings.timeout) + span + pause
            found[name] = StepLimit(
                span, self.scraper.max_attempts(step), whole, self.scraper.at_most_once(step)
            )
        return {SEED_STEP: found[self.scraper.first.name]} | found


class Onlooker(Protocol):
    """Who is told how a run gets on."""

    def started(self, run: Run, crew: Crew) -> None: ...
    def saw(self, snapshot: Snapshot, crew: Crew) -> None: ...
    def said(self, text: str) -> None: ...
    def printed(self, line: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """How a run ended, or how far it came."""

    run: Run
    enqueued: EnqueueReport
    before: int  # pages that were completed when it began
    snapshot: Snapshot
    ending: CrewEnding
    seconds: float
    refused: int = 0  # seeds that could not be queued
    compared: Comparison | None = None  # with the run that was done again

    def as_json(self) -> dict[str, Any]:
        """Return the fields that `shoal run --json` promises."""
        stats = self.snapshot.stats
        pages = stats.completed - self.before
        return {
            "run_id": self.run.id,
            "enqueued": self.enqueued.added,
            "completed": stats.completed,
            "dead": stats.dead,
            "expired": stats.expired,
            "items": stats.items,
            "rejected": stats.rejected,
            "state": self.snapshot.state,
            "reason": self.snapshot.run.reason or None,
            "not_followed": links_as_json(self.snapshot.not_followed),
            "seconds": round(self.seconds, 3),
            "pages_per_second": round(pages / self.seconds, 2) if self.seconds else 0.0,
            "remaining": stats.remaining,
            "invalid": self.refused,
            "known": self.enqueued.known,
            **(self.compared.as_json() if self.compared else {}),
        }


async def open_run(queue: Queue, scraper: Scraper, *, run_id: str | None = None, resume: bool = False) -> Run:
    """Make a run of the scraper, or find the one to go on with; raises RunConflict where it cannot go on."""
    if not resume:
        run = await queue.start_run(scraper.name, settings=scraper.run_settings(), run_id=run_id)
        return await reopened(queue, run, scraper)
    if run_id:
        run = await queue.run(run_id)
        if run.scraper != scraper.name:
            raise RunConflict.of_another(run_id, run.scraper, scraper.name)
        return await reopened(queue, run, scraper)
    for run in await queue.runs():
        is_open = run.scraper == scraper.name and not run.state.has_ended
        if is_open and (await queue.stats(run.id)).remaining:
            return run
    raise InvalidSetting(
        "--resume", f"finds no unfinished run of {scraper.name!r} in this queue. List them with: shoal runs"
    )


def lock_of(queue: Queue, job: Job, run_id: str | None = None) -> ScraperLock:
    """Return the lock that the workers of a job hold.

    A scraper in single mode is run once at a time. Others may join a run of it, unless that mode was given.
    """
    settings = job.scraper.settings
    is_strict = settings.mode_given or not job.joins
    duties = (
        () if settings.mode != "single" or not is_strict else (WORKING,) if job.joins else (FILLING, WORKING)
    )
    return ScraperLock(queue, job.scraper.name, duties, run_id=run_id)


def books_of(job: Job, run: Run) -> AbstractContextManager[Library]:
    """Keep the logs of a job's work on a run; nothing in them is one of the secrets that the job knows."""
    return logs_of(job.logs, run, all_secrets(job.queue_url, job.scraper.settings, os.environ))


def crew_of(
    queue: Queue,
    job: Job,
    run: Run,
    logs: Library = NO_LIBRARY,
    *,
    lock: ScraperLock | None = None,
    on_event: Callable[[str], None] = lambda text: None,
    on_output: Callable[[str], None] = lambda line: None,
) -> Crew:
    """Return the crew that a job has for a run; it holds the job's lock, or the one that is handed in."""
    notice = sandbox_notice({step.fetch for step in job.scraper.steps.values()})
    if notice:
        on_event(notice)
        logs.fleet.note(Level.WARNING, SAID, message=notice)
    return Crew(
        queue,
        job.order(run),
        job.workers,
        limits=job.limits(),
        lock=lock or lock_of(queue, job, run.id),
        nursery=job.nursery,
        on_event=on_event,
        on_output=on_output,
        logs=logs,
        stagger=job.stagger,
    )


async def launch(
    queue: Queue,
    job: Job,
    run: Run,
    onlooker: Onlooker,
    *,
    seeds: Tasks = (),
    on_invalid: Callable[[int, InvalidTask], None] | None = None,
    on_crew: Callable[[Crew], None] = lambda crew: None,
    outlet: Outlet | None = None,
    known: Iterable[Task] = (),
    lock: ScraperLock | None = None,
) -> Summary:
    """Enqueue the seeds and known tasks, work until the run is drained or stopped, and return how it went."""
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        logs = stack.enter_context(books_of(job, run))
        lock = await stack.enter_async_context(lock or lock_of(queue, job, run.id))
        await hand_back(queue, run)
        before = (await queue.stats(run.id)).completed
        crew = crew_of(queue, job, run, logs, lock=lock, on_event=onlooker.said, on_output=onlooker.printed)
        # A port that is taken is refused before anything is queued.
        metrics = await stack.enter_async_context(metrics_of(job.metrics, crew, onlooker.said))
        enqueued = await queue.enqueue(run.id, seeds, on_invalid=on_invalid)
        enqueued += await queue.enqueue(run.id, known)
        outlet = await stack.enter_async_context(outlet or Outlet(queue, run.id, None))
        outlet.when_lost(crew.stop)
        on_crew(crew)
        onlooker.started(run, crew)
        progress = Progress(queue, run.id)
        look = partial(_look, progress, crew, onlooker, metrics)
        duty = restarted("Looking at the run's progress", look, onlooker.said)
        looking = watched(asyncio.create_task(duty))
        try:
            with within(job.span, crew, onlooker.said):
                ending = await crew.run()
        finally:
            looking.cancel()
            await asyncio.wait([looking])
        await end_at_budget(queue, run, job.scraper)
        snapshot = await progress.look(last=True)
        await outlet.finish(snapshot.stats.items)
    return Summary(
        run=run,
        enqueued=enqueued,
        before=before,
        snapshot=snapshot,
        ending=ending,
        seconds=time.monotonic() - began,
        compared=await compared(queue, run) if job.scraper.settings.again else None,
    )


async def _look(progress: Progress, crew: Crew, onlooker: Onlooker, metrics: CrewMetrics) -> None:
    while True:
        with suppress(QueueError):
            snapshot = await progress.look()
            metrics.saw(snapshot)
            onlooker.saw(snapshot, crew)
        await asyncio.sleep(LOOK_EVERY)
