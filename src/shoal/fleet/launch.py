"""Carrying out a run on this machine: make it or go on with it, enqueue, work, and tell how it went."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from shoal.core.errors import InvalidSetting, InvalidTask, QueueError, RunConflict
from shoal.core.model import MINUTE, EnqueueReport, Run
from shoal.fleet.crew import Crew, CrewEnding
from shoal.fleet.outlet import Outlet
from shoal.fleet.progress import Progress, Snapshot
from shoal.fleet.single import alone
from shoal.fleet.whereabouts import hand_back, new_worker_id
from shoal.queue.contract import Queue, Tasks
from shoal.scrape.scraper import Scraper
from shoal.worker.line import Order
from shoal.worker.nursery import Nursery
from shoal.worker.room import MOST_BYTES

LOOK_EVERY = 0.5
# A keeper extends what its worker holds, so a short lease suits a long step too: it is how long the tasks of
# a machine that vanished are waited for.
LEASE = MINUTE


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
    at_once: int = 64
    batch: int = 50
    memory: int = MOST_BYTES
    steps: list[str] | None = None
    partitions: list[str] | None = None
    nursery: Nursery | None = None  # for the one launch of this job; without it, one is started

    def order(self, run: Run) -> Order:
        """Return what each worker is told."""
        return Order(
            queue=self.queue_url,
            run_id=run.id,
            worker_id="",
            scraper=self.reference,
            overrides=self.overrides,
            lease=min(self.scraper.settings.lease, LEASE),
            at_once=self.at_once,
            batch=self.batch,
            memory=self.memory,
            steps=self.steps,
            partitions=self.partitions,
        )


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
            "seconds": round(self.seconds, 3),
            "pages_per_second": round(pages / self.seconds, 2) if self.seconds else 0.0,
            "remaining": stats.remaining,
            "invalid": self.refused,
        }


async def open_run(queue: Queue, scraper: Scraper, *, run_id: str | None = None, resume: bool = False) -> Run:
    """Make a run of the scraper, or find the one to go on with."""
    if not resume:
        return await queue.start_run(scraper.name, settings=scraper.run_settings(), run_id=run_id)
    if run_id:
        run = await queue.run(run_id)
        if run.scraper != scraper.name:
            raise RunConflict(run_id, f"belongs to scraper {run.scraper!r}, not {scraper.name!r}")
        return run
    for run in await queue.runs():
        if run.scraper == scraper.name and (await queue.stats(run.id)).remaining:
            return run
    raise InvalidSetting(
        "--resume", f"finds no unfinished run of {scraper.name!r} in this queue. List them with: shoal runs"
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
) -> Summary:
    """Enqueue the seeds, work until the run is drained or stopped, and return how it went."""
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        if job.scraper.settings.mode == "single":
            await stack.enter_async_context(alone(queue, run, new_worker_id()))
        await hand_back(queue, run)
        before = (await queue.stats(run.id)).completed
        enqueued = await queue.enqueue(run.id, seeds, on_invalid=on_invalid)
        crew = Crew(
            queue,
            job.order(run),
            job.workers,
            step_timeout=max(step.lease or job.scraper.settings.lease for step in job.scraper.steps.values()),
            nursery=job.nursery,
            on_event=onlooker.said,
            on_output=onlooker.printed,
        )
        on_crew(crew)
        onlooker.started(run, crew)
        progress = Progress(queue, run.id)
        looking = [asyncio.create_task(_look(progress, crew, onlooker))]
        if outlet:
            looking.append(asyncio.create_task(outlet.follow()))
        try:
            ending = await crew.run()
        finally:
            for task in looking:
                task.cancel()
            await asyncio.wait(looking)
    snapshot = await progress.look()
    if outlet:
        await outlet.finish(snapshot.stats.items)
    return Summary(
        run=run,
        enqueued=enqueued,
        before=before,
        snapshot=snapshot,
        ending=ending,
        seconds=time.monotonic() - began,
    )


async def _look(progress: Progress, crew: Crew, onlooker: Onlooker) -> None:
    while True:
        with suppress(QueueError):
            onlooker.saw(await progress.look(), crew)
        await asyncio.sleep(LOOK_EVERY)
