"""One run of a scraper from a program: opens the queue, works, and hands tasks back if it is cancelled."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

from shoal.core.errors import InvalidInput, InvalidSetting, ShoalError
from shoal.core.model import Run, RunState, Task
from shoal.core.values import counted
from shoal.fleet.command_hints import messages_on
from shoal.fleet.job import Job
from shoal.fleet.lock import ScraperLock
from shoal.fleet.project.file import Project
from shoal.fleet.run.debug import temporary_queue
from shoal.fleet.run.enqueue import Refusals, RunEnqueuer, open_enqueuer
from shoal.fleet.run.launch import Summary, launch, lock_of
from shoal.fleet.run.lifecycle import discarded_if_refused
from shoal.fleet.run.pool import WorkerPool
from shoal.fleet.run.settings import find_existing, open_job
from shoal.fleet.sources.declared import seeds_left
from shoal.fleet.sources.recrawl import recrawl_tasks
from shoal.fleet.sources.seeds import Seeds
from shoal.queue.contract import Queue
from shoal.queue.open import open_queue
from shoal.scrape.scraper import Scraper
from shoal.script.inline_pool import InlinePool
from shoal.script.options import RunOptions
from shoal.script.progress import ScriptProgress

KILL_TIMEOUT = timedelta(seconds=5)  # for a cancelled run to hand back its tasks; then its workers are killed


class ScriptRun:
    """A run that is open; `work` carries it out."""

    def __init__(
        self,
        queue: Queue,
        job: Job,
        run: Run,
        lock: ScraperLock,
        feed: RunEnqueuer,
        known: list[Task],
        refusals: Refusals,
        progress: ScriptProgress,
        close_sources: Callable[[], Awaitable[None]],
        *,
        is_inline: bool,
        is_held: Callable[[], bool] | None,
    ) -> None:
        self.queue, self.job, self.run, self.refusals = queue, job, run, refusals
        self._lock, self._feed, self._known, self._progress = lock, feed, known, progress
        self._close_sources = close_sources
        self._make_pool: Callable[..., WorkerPool] = WorkerPool
        if is_inline:
            self._make_pool = partial(InlinePool, run=run, scraper=job.scraper, is_held=is_held)
        self.pool: WorkerPool | None = None

    async def work(self) -> Summary:
        """Enqueue and work until the run is drained or stopped; raises the error of workers that cannot work.

        If this is cancelled, the tasks in progress are handed back before it returns.
        """
        working = asyncio.create_task(self._launch())
        try:
            summary = await asyncio.shield(working)
        except asyncio.CancelledError:
            await self._abandon(working)
            raise
        if summary.ending.failed:
            raise ShoalError(f"The workers of run {self.run.id} have stopped: {summary.ending.failures[0]}")
        await self._close_sources()  # which reports those that could not be read
        summary = replace(summary, refused=self.refusals.count)
        if summary.queued_nothing:
            first = self.refusals.first[0]
            raise InvalidInput(
                f"Nothing could be queued ({summary.refused:,} invalid). "
                f"{first.where}: {first.text}: {first.reason}"
            )
        return summary

    def finish(self) -> int:
        """Finish the tasks in progress and stop; returns how many they are, or -1 if nothing has started."""
        if self.pool is None:
            return -1
        in_hand = self.pool.in_hand
        self.pool.stop()
        return in_hand

    async def _launch(self) -> Summary:
        def begin(pool: WorkerPool) -> None:
            self.pool = pool

        return await launch(
            self.queue,
            self.job,
            self.run,
            self._progress,
            seeds=self._feed,
            on_invalid=self._feed.invalid,
            on_pool=begin,
            known=self._known,
            lock=self._lock,
            make_pool=self._make_pool,
        )

    async def _abandon(self, working: "asyncio.Task[Summary]") -> None:
        """Release what is leased and wait for the end, however often this is cancelled meanwhile."""
        if self.pool is None:
            working.cancel()
        while self.pool and self.pool.stops < 2 and not working.done():
            self.pool.stop()
        timer = asyncio.get_running_loop().call_later(KILL_TIMEOUT.total_seconds(), self._kill)
        while not working.done():
            try:
                await asyncio.wait([working])
            except asyncio.CancelledError:
                self._kill()
        timer.cancel()
        if not working.cancelled():
            working.exception()  # the cancellation is what is raised

    def _kill(self) -> None:
        if self.pool:
            self.pool.stop()


@asynccontextmanager
async def open_script_run(
    scraper: Scraper,
    options: RunOptions,
    progress: ScriptProgress,
    *,
    is_held: Callable[[], bool] | None = None,
) -> AsyncIterator[ScriptRun]:
    """Create the run of a scraper, or find the one to resume; what it opens is closed at the end."""
    project = Project.find(Path.cwd())
    async with AsyncExitStack() as stack:
        url = options.queue or stack.enter_context(temporary_queue())
        if options.queue:
            stack.enter_context(messages_on(url))
        job = options.job(scraper, project, url)
        seeds = options.seeds(project, job)
        queue = await stack.enter_async_context(open_queue(url))
        existing = await _find_resumed(queue, job, options)
        if not seeds and not existing:
            partial_run = await _describe_partial(queue, job, options)
            raise InvalidInput(
                f"No URLs to start with. Write: {scraper.name}.run(['https://…']), "
                f"or Scraper({scraper.name!r}, start=['https://…']){partial_run}"
            )
        wanted = existing.id if existing else options.resumed_id
        # The queue of this run alone needs no lock.
        lock = lock_of(queue, job, wanted) if options.queue else ScraperLock(queue, scraper.name, ())
        await stack.enter_async_context(lock)
        opened = await open_job(queue, job, run_id=wanted, resume=existing is not None)
        run, job = opened.run, opened.job
        await stack.enter_async_context(discarded_if_refused(queue, run, is_new=opened.is_new))
        if existing:
            seeds = await seeds_left(queue, run.id, seeds)
            left = (await queue.stats(run.id)).remaining
            progress.on_message(f"Resuming run {run.id} with {left:,} tasks left. {opened.notice}".strip())
        if scraper.login_function:
            scraper.args = job.scraper.args  # the login function may read them there
        known = list(await recrawl_tasks(queue, job.scraper, but=run.id))
        await lock.name_run(run.id)
        refusals = Refusals()
        sources = await stack.enter_async_context(AsyncExitStack())
        feed = await sources.enter_async_context(
            _open_feed(queue, job, seeds, project, options, refusals, progress)
        )
        yield ScriptRun(
            queue,
            job,
            run,
            lock,
            feed.into(run),
            known,
            refusals,
            progress,
            sources.aclose,
            is_inline=options.workers is None,
            is_held=is_held,
        )


@asynccontextmanager
async def _open_feed(
    queue: Queue,
    job: Job,
    seeds: Seeds,
    project: Project,
    options: RunOptions,
    refusals: Refusals,
    progress: ScriptProgress,
) -> AsyncIterator[RunEnqueuer]:
    opened = open_enqueuer(
        queue,
        job.scraper,
        seeds,
        project.routes,
        on_invalid=options.on_invalid,
        on_refusal=refusals.record,
        on_report=refusals.record_problems,
        on_source=progress.watch,
    )
    async with opened as feed:
        yield feed


async def _describe_partial(queue: Queue, job: Job, options: RunOptions) -> str:
    """Return how to go on with the newest run if it ended at a limit; empty if there is none."""
    runs = await queue.runs() if options.queue and options.resume is not False else []
    newest = next((run for run in runs if run.scraper == job.scraper.name), None)
    if newest is None or newest.state is not RunState.PARTIAL:
        return ""
    left = counted((await queue.stats(newest.id)).remaining, "task")
    again = f"resume={newest.id!r} and a larger limit"
    return f". Run {newest.id} ended, {newest.reason}, with {left} left. To go on with it: {again}"


async def _find_resumed(queue: Queue, job: Job, options: RunOptions) -> Run | None:
    """Return the run to go on with.

    In a queue that is kept, that is the scraper's newest unfinished one, unless `resume` says otherwise.
    Where others may work on it at the same time, it is resumed only if that was asked for.
    """
    if options.queue is None or options.resume is False:
        return None
    if options.resumed_id:
        return await find_existing(queue, job, options.resumed_id, resume=bool(options.resume))
    if isinstance(options.resume, str):  # newest: there must be one
        return await find_existing(queue, job, None, resume=True)
    if options.resume is None and job.scraper.settings.mode == "distributed":
        return None
    with suppress(InvalidSetting):
        return await find_existing(queue, job, None, resume=True)
    return None
