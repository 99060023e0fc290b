"""The beginning and the end of a run: reopened, ended at its limit, cancelled, deleted, or taken back."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from shoal.core.errors import InvalidInput, QueueError, RunConflict, ScraperBusy, UnknownRun
from shoal.core.model import Run, RunState, Stats
from shoal.fleet.progress import Snapshot
from shoal.queue.contract import Queue
from shoal.scrape.scraper import Scraper
from shoal.worker.allowance import Allowance, raise_budget
from shoal.worker.not_followed import forget_links

log = logging.getLogger(__name__)


async def reopened(queue: Queue, run: Run, scraper: Scraper) -> Run:
    """Let a run go on that ended with tasks left; raises RunConflict where it cannot."""
    check_not_cancelled(run)
    if run.state is not RunState.PARTIAL:
        return run
    most, stats = scraper.settings.max_pages, await queue.stats(run.id)
    used = stats.completed + stats.dead
    if most is not None and used >= most:
        raise RunConflict(
            run.id,
            f"has used its budget: {used:,} pages are done, max_pages is {most:,}, and {stats.remaining:,} "
            f"tasks are left. Raise it: type the same command with --set max_pages={used + most}",
        )
    await raise_budget(queue, run.id, most)
    return await queue.resume(run.id)


def check_not_cancelled(run: Run) -> None:
    """Raise RunConflict for a run that was cancelled."""
    if run.state is RunState.CANCELLED:
        raise RunConflict(
            run.id,
            "was cancelled, which is for good. Start a new run: leave out --resume and --run. "
            f"What it has found stays: shoal export {run.id} --to items.jsonl",
        )


async def end_at_budget(queue: Queue, run: Run, scraper: Scraper) -> None:
    """End a run whose pages are used, if no worker has done so."""
    if most := scraper.settings.max_pages:
        await Allowance(queue, run.id, most).end()


async def cancel(queue: Queue, run_id: str) -> Run:
    """Cancel a run; one that has finished stays as it is."""
    run, stats = await queue.run(run_id), await queue.stats(run_id)
    if Snapshot(run, stats, 0, 0.0, None).state == "finished":
        return run
    return await queue.cancel(run_id)


async def purge(queue: Queue, run_id: str) -> None:
    """Delete a run with all that belongs to it."""
    await queue.purge(run_id)
    await forget_links(queue, run_id)


async def is_new(queue: Queue, run_id: str | None) -> bool:
    """Tell whether a run of this id would be a new one."""
    if run_id is None:
        return True
    try:
        await queue.run(run_id)
    except UnknownRun:
        return True
    return False


@asynccontextmanager
async def not_left_empty(queue: Queue, run: Run, *, is_new: bool) -> AsyncIterator[None]:
    """Delete a run that was just made if filling it fails before anything has entered."""
    try:
        yield
    except Exception:
        await _take_back_if(queue, run, is_new, lambda stats: not stats.tasks)
        raise


@asynccontextmanager
async def kept_if_accepted(queue: Queue, run: Run, *, is_new: bool) -> AsyncIterator[None]:
    """Delete a run that was just made if its start is refused, or if nothing has entered it."""
    async with not_left_empty(queue, run, is_new=is_new):
        try:
            yield
        except (InvalidInput, ScraperBusy):
            await _take_back_if(queue, run, is_new, _is_untouched)
            raise
    if is_new and not (await queue.stats(run.id)).tasks:
        await purge(queue, run.id)


async def _take_back_if(queue: Queue, run: Run, is_new: bool, condition: Callable[[Stats], bool]) -> None:
    with suppress(QueueError):  # why the start failed is raised; or it was purged already
        if is_new and condition(await queue.stats(run.id)):
            await take_back(queue, run)


async def take_back(queue: Queue, run: Run) -> None:
    """Delete a run whose start was refused, unless other runs leave out what it has queued."""
    tasks = (await queue.stats(run.id)).tasks
    if not tasks or run.settings.dedup is None:
        await purge(queue, run.id)
        return
    log.warning(
        "Run %s stays, with %s tasks: other runs leave them out. Go on with it: --resume %s. "
        "Or let them be queued again: shoal purge %s, and shoal forget",
        run.id,
        f"{tasks:,}",
        run.id,
        run.id,
    )


def _is_untouched(stats: Stats) -> bool:
    return stats.tasks == stats.pending + stats.delayed
