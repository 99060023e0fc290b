"""Opens a run: the one path for commands, programs, the API, the roles of a cluster and debugging.

The order of the steps is the reason why a start that is refused leaves nothing behind:

1. take the lock of the scraper, if the caller holds one: a start that it refuses must create no run;
2. find the run to go on with, and its sources that were not read to the end;
3. bind the arguments, which the declared seeds may read;
4. open the sources and read up to the first task: one that cannot be read creates no run, not even for a
   moment, because workers may be waiting for one;
5. create the run, or reopen it with the settings that it was made with;
6. find the pages to recrawl, store by what the run chooses among them, and name the run in the lock.

A run that was created is deleted if its start is refused after that, before anybody has worked on it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from shoal.core.commands import shoal_command
from shoal.core.errors import InvalidSetting, UnknownRun
from shoal.core.model import EnqueueReport, Run, RunState, Task
from shoal.core.text import shorten
from shoal.core.values import counted
from shoal.discover.routing import Routes
from shoal.discover.source import Refusal
from shoal.fleet.command_hints import command_to_resume
from shoal.fleet.job import Job
from shoal.fleet.lock import FILLING, WORKING, ScraperLock
from shoal.fleet.run.feed import InvalidSeeds, RunFeed, open_feed
from shoal.fleet.run.lifecycle import check_steps, discarded_if_refused, reopen
from shoal.fleet.run.settings import settings_of, use_settings
from shoal.fleet.sources.declared import run_being_seeded, seeds_left
from shoal.fleet.sources.recrawl import earlier_run, recrawl_tasks
from shoal.fleet.sources.revisits import store_plan
from shoal.fleet.sources.seeds import Seeds
from shoal.fleet.status.find import is_standing
from shoal.queue.contract import Queue, QueueReports
from shoal.queue.run_args import stored_args, write_args
from shoal.scrape.scraper import Scraper
from shoal.scrape.settings.args import dump_args
from shoal.worker.run_settings import write_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnqueueReport(EnqueueReport):
    """Result of an enqueue, with the first few seeds that could not be queued."""

    refused: Sequence[Refusal] = ()
    _read_ids: Callable[[], list[str | None]] = field(default=list, repr=False, compare=False)

    @property
    def ids(self) -> list[str | None]:
        """The id of each URL and task that was passed as a list, in order; None for what was refused.

        A generator is not stored, so it has none.
        """
        return self._read_ids()


class StartOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a run is opened."""

    run_id: str | None = None  # of an existing run to go on with, or of the new one
    resume: bool = False  # the run must exist; without an id it is the newest unfinished one
    or_new: bool = False  # with `resume` and without an id: if there is none, a new run
    lock: ScraperLock | None = None  # held while the run is open
    routes: Routes = msgspec.field(default_factory=Routes)
    invalid: InvalidSeeds = msgspec.field(default_factory=InvalidSeeds)
    adds: bool = False  # adds seeds to an existing run, even if all of its own are enqueued
    keeps_empty: bool = False  # a new run that got no task stays: tasks are added later
    creates_first: bool = False  # the run is there while its sources are read: a page shows it


class OpenedRun(msgspec.Struct, frozen=True):
    """A run, the job with the settings of the run, and what is to be enqueued into it."""

    queue: Queue
    run: Run
    job: Job
    is_new: bool = False
    notices: Sequence[str] = ()  # which settings and seeds are used, if the run existed
    lock: ScraperLock | None = None
    feed: RunFeed | None = None
    known: Iterable[Task] = ()  # pages to recrawl
    invalid: InvalidSeeds = msgspec.field(default_factory=InvalidSeeds)
    _close_sources: Callable[[], Awaitable[None]] | None = None

    async def enqueue(
        self, tasks: AsyncIterator[Task] | None = None, *, may_be_empty: bool = False
    ) -> RunEnqueueReport:
        """Enqueue what all sources have, or these `tasks` of the feed, and the pages to recrawl.

        Then the sources are closed: only that reports those that could not be read. Raises InvalidInput if a
        new run got no task because all seeds were skipped, unless it may be empty.
        """
        run, feed, report = self.run, self.feed, EnqueueReport()
        if feed:
            stream = feed.into(run) if tasks is None else tasks
            report += await self.queue.enqueue(run.id, stream, on_invalid=feed.invalid)
        report += await self.queue.enqueue(run.id, self.known)
        if self._close_sources:
            await self._close_sources()
        if self.is_new and not (may_be_empty or report.added or report.known):
            self.invalid.check_not_all_skipped()
        return RunEnqueueReport(
            added=report.added,
            duplicate=report.duplicate,
            known=report.known,
            invalid=self.invalid.count,
            refused=self.invalid.first,
            _read_ids=lambda: feed.ids(run) if feed else [],
        )


@asynccontextmanager
async def open_run(queue: Queue, job: Job, seeds: Seeds, options: StartOptions) -> AsyncIterator[OpenedRun]:
    """Create a run, or find the one to go on with; `OpenedRun.enqueue` enqueues its seeds.

    Raises what a start is refused with: ScraperBusy, RunConflict, UnknownRun, InvalidSetting and others.
    """
    async with AsyncExitStack() as stack:
        if options.lock:
            await stack.enter_async_context(options.lock)
        existing = await _find_to_open(queue, job, options)
        resume = options.resume and existing is not None
        notices = []
        if existing and not options.adds:
            left = await seeds_left(queue, existing.id, seeds)
            notices, seeds = _seed_notices(seeds, left), left
        run_id = existing.id if existing else options.run_id
        bound = await bind_args(queue, job, run_id)
        sources = await stack.enter_async_context(AsyncExitStack())
        feed = await sources.enter_async_context(
            open_feed(queue, bound.scraper, seeds, options.routes, options.invalid)
        )
        if not options.creates_first:
            await feed.begin(strict=options.invalid.policy == "raise")
        opened = await open_job(queue, job, run_id=run_id, resume=resume, seeds=seeds.mark)
        run = opened.run
        await stack.enter_async_context(
            discarded_if_refused(queue, run, is_new=opened.is_new, keeps_empty=options.keeps_empty)
        )
        known = await recrawl_tasks(queue, opened.job.scraper, but=run.id)
        if opened.is_new:
            await store_plan(queue, opened.job.scraper, run, seeds)
        if options.lock:
            await options.lock.name_run(run.id)
        yield replace(
            opened,
            notices=[*opened.notices, *notices],
            lock=options.lock,
            feed=feed.into(run),
            known=known,
            invalid=options.invalid,
            _close_sources=sources.aclose,
        )


def _seed_notices(seeds: Seeds, left: Seeds) -> list[str]:
    if left.declared_in:
        return [f"Seeds: {left.declared_in}. Enqueueing them was interrupted; duplicates are not added."]
    if left and left is not seeds:
        return [
            "The sources of the run were not read to the end, and are read again; duplicates are not added."
        ]
    return []


async def open_job(
    queue: Queue, job: Job, *, run_id: str | None = None, resume: bool = False, seeds: str = ""
) -> OpenedRun:
    """Create a run that remembers the job's settings, or find the one to resume and use the settings it has.

    Its arguments are those given for a new run, or those that it has stored. Raises RunConflict if it cannot
    be resumed, InvalidSetting if a setting or an argument is missing or cannot be changed.
    """
    run = await find_existing(queue, job, run_id, resume=resume)
    if run is not None:
        if resume and not job.joins and job.steps is None:
            await check_steps(queue, run, job.scraper)
        job, notice = await use_settings(queue, job, run)
        job = await bind_args(queue, job, run.id)
        run = await reopen(queue, await queue.run(run.id), job.scraper)
        await store_args(queue, run, job.scraper)
        return OpenedRun(queue, run, job, notices=[notice] if notice else [])
    if job.scraper.settings.begins_with:
        earlier = await earlier_run(queue, job.scraper, but=run_id)
        # By its id: when the run is resumed, another one is the newest.
        job = job.with_settings({**job.typed, "again": earlier and earlier.id})
    job = await bind_args(queue, job, None)  # an earlier run of this id may have left some behind
    run = await queue.start_run(job.scraper.name, settings=job.scraper.run_settings(), run_id=run_id)
    run = await reopen(queue, run, job.scraper)
    await store_args(queue, run, job.scraper, is_new=True)
    await write_settings(queue, run.id, replace(settings_of(job), seeds=seeds))
    return OpenedRun(queue, run, job, is_new=True)


async def find_existing(queue: Queue, job: Job, run_id: str | None, *, resume: bool) -> Run | None:
    """Return the run to go on with; None if it is a new one. Raises UnknownRun, RunConflict."""
    if run_id is None and resume:
        run_id = await run_being_seeded(queue, job.scraper.name)
    if run_id is None:
        return await _find_unfinished(queue, job) if resume else None
    try:
        return await queue.run(run_id)
    except UnknownRun:
        if resume:
            raise
    return None


async def _find_to_open(queue: Queue, job: Job, options: StartOptions) -> Run | None:
    try:
        return await find_existing(queue, job, options.run_id, resume=options.resume)
    except InvalidSetting:
        if options.or_new:
            return None
        raise


async def _find_unfinished(queue: Queue, job: Job) -> Run:
    """Return the newest unfinished run; if there are only some that ended at a limit, say how to go on."""
    try:
        return await find_unfinished(queue, job.scraper.name)
    except InvalidSetting:
        for run in await queue.runs():
            if run.scraper == job.scraper.name and run.state is RunState.PARTIAL:
                left = counted((await queue.stats(run.id)).remaining, "task")
                again = await command_to_resume(queue, job.queue_url, run)
                raise InvalidSetting(
                    "--resume",
                    f"found no run of {run.scraper!r} that was stopped. Run {run.id} ended, {run.reason}, "
                    f"with {left} left. To go on with it, run: {again}",
                ) from None
        raise


async def find_unfinished(queue: QueueReports, scraper: str) -> Run:
    """Return the newest run of a scraper that has tasks left and has not ended; raises InvalidSetting."""
    finished = ""
    for run in await queue.runs():
        is_open = run.scraper == scraper and not run.state.has_ended and not is_standing(run)
        if is_open and (await queue.stats(run.id)).remaining:
            return run
        finished = finished or (run.id if is_open else "")
    # A launcher that is killed when the last page is done may have written only some of the items.
    hint = f" {finished} has no task left; to write its items again: --resume {finished}." if finished else ""
    raise InvalidSetting(
        "--resume",
        f"found no unfinished run of {scraper!r} in this queue.{hint} "
        f"List them with: {shoal_command('runs')}",
    )


def lock_of(queue: Queue, job: Job, run_id: str | None = None) -> ScraperLock:
    """Return the lock that the workers of a job hold.

    A scraper in single mode runs once at a time. Others may join its run, unless that mode was set by name.
    """
    settings = job.scraper.settings
    is_strict = settings.mode_given or not job.joins
    duties = (
        () if settings.mode != "single" or not is_strict else (WORKING,) if job.joins else (FILLING, WORKING)
    )
    return ScraperLock(queue, job.scraper.name, duties, run_id=run_id)


async def bind_args(queue: Queue, job: Job, run_id: str | None) -> Job:
    """Return a job with the arguments of a run; raises InvalidSetting if one is missing or has changed.

    `run_id` is None for a new run. The arguments of a run are set when it is created.
    """
    declared = job.scraper.declared_args
    if not declared:
        return job
    stored = await stored_args(queue, run_id) if run_id else None
    if stored is None:
        return _with_args(job, declared.read(job.args))
    args = declared.restore(stored)
    before, after = dump_args(args), dump_args(declared.restore({**stored, **job.typed_args}))
    for name in job.typed_args:
        if before.get(name) != after.get(name):
            was = shorten(repr(before.get(name)), 60)
            raise InvalidSetting(
                f"argument {name!r}",
                f"of run {run_id} is {was} and cannot be changed; leave it out, or start a new run",
            )
    return _with_args(job, args)


async def store_args(queue: Queue, run: Run, scraper: Scraper, *, is_new: bool = False) -> None:
    """Store the arguments of a scraper with its run, unless an existing run has some."""
    if not scraper.declared_args or scraper.args is None:
        return
    if is_new or await stored_args(queue, run.id) is None:
        await write_args(queue, run.id, dump_args(scraper.args))


def _with_args(job: Job, args: object) -> Job:
    scraper = job.scraper.replace()
    scraper.args = args
    return replace(job, scraper=scraper)
