"""One run of a scraper from a program: opens the queue, works, and hands tasks back if it is cancelled."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

from shoal.core.errors import InvalidInput, InvalidSetting, ShoalError
from shoal.core.model import Run, RunState
from shoal.core.values import counted
from shoal.fleet.command_hints import messages_on
from shoal.fleet.job import Job
from shoal.fleet.project.file import Project
from shoal.fleet.run.feed import InvalidSeeds
from shoal.fleet.run.host import MakePool
from shoal.fleet.run.inline_pool import InlinePool, temporary_queue
from shoal.fleet.run.launch import Summary, launch
from shoal.fleet.run.open_run import OpenedRun, StartOptions, find_existing, lock_of, open_run
from shoal.fleet.run.pool import WorkerPool
from shoal.queue.contract import Queue
from shoal.queue.open import open_queue
from shoal.scrape.scraper import Scraper
from shoal.script.options import RunOptions
from shoal.script.progress import ScriptProgress

KILL_TIMEOUT = timedelta(seconds=5)  # for a cancelled run to hand back its tasks; then its workers are killed


class ScriptRun:
    """A run that is open; `work` carries it out."""

    def __init__(self, opened: OpenedRun, progress: ScriptProgress, make_pool: MakePool) -> None:
        self._opened, self._progress, self._make_pool = opened, progress, make_pool
        self.queue, self.job, self.run = opened.queue, opened.job, opened.run
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
        if summary.queued_nothing:
            first = summary.enqueued.refused[0]
            raise InvalidInput(
                f"Nothing could be queued ({summary.enqueued.invalid:,} invalid). "
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

        return await launch(self._opened, self._progress, on_pool=begin, make_pool=self._make_pool)

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
        start = StartOptions(
            run_id=wanted,
            resume=existing is not None,
            # The queue of this run alone needs no lock.
            lock=lock_of(queue, job, wanted) if options.queue else None,
            routes=project.routes,
            invalid=InvalidSeeds(options.on_invalid, on_source=progress.watch),
        )
        opened = await stack.enter_async_context(open_run(queue, job, seeds, start))
        if existing:
            left = (await queue.stats(opened.run.id)).remaining
            notice = " ".join([f"Resuming run {opened.run.id} with {left:,} tasks left.", *opened.notices])
            progress.on_message(notice)
        if scraper.login_function:
            scraper.args = opened.job.scraper.args  # the login function may read them there
        make_pool = partial(InlinePool, is_held=is_held) if options.workers is None else WorkerPool
        yield ScriptRun(opened, progress, make_pool)


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
