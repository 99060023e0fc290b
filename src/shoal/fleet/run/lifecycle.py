"""The start and end of a run: reopen, end at its page limit, cancel, purge, or discard a refused start."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from shoal.core.commands import shoal_command
from shoal.core.errors import InvalidInput, QueueError, RunConflict, ScraperBusy, UnknownRun
from shoal.core.model import INVALID_SEED, SEED_STEP, Run, RunState, Stats
from shoal.core.values import counted
from shoal.fleet.command_hints import PAGE_LIMIT, export_words
from shoal.fleet.quality.records import forget_record
from shoal.fleet.scraper_stats import stats_topic
from shoal.fleet.sources.declared import mark_seeded
from shoal.fleet.status.at_work import has_workers
from shoal.fleet.status.hook_records import forget_hook_records
from shoal.fleet.status.progress import Snapshot, snapshot_of
from shoal.fleet.status.rates import forget_rates
from shoal.queue.contract import Queue, QueueReports
from shoal.queue.run_args import write_args
from shoal.scrape.scraper import Scraper
from shoal.worker.failures.pages import forget_failed_pages
from shoal.worker.left_out import forget_cuts, left_out_topic, trap_topic
from shoal.worker.page_limit import BUDGETS, PageLimit, raise_page_limit
from shoal.worker.partitions import topic_of as partitions_topic
from shoal.worker.recrawl import topic as index_topic
from shoal.worker.revisits import write_plan
from shoal.worker.run_settings import forget_settings

log = logging.getLogger(__name__)


async def reopen(queue: Queue, run: Run, scraper: Scraper) -> Run:
    """Resume a run that ended with tasks left; raises RunConflict if that is not possible."""
    check_not_cancelled(run)
    if run.state is not RunState.PARTIAL:
        return run
    most, stats = scraper.settings.max_pages, await queue.stats(run.id)
    if most is not None and stats.completed + stats.dead >= most:
        larger = f"max_pages={stats.completed + stats.dead + most}"
        raise _budget_used(run, stats, most, f"run the same command with --set {larger}")
    await raise_page_limit(queue, run.id, most)
    return await queue.resume(run.id)


async def resume(queue: Queue, run_id: str) -> Run:
    """Resume a paused or partial run; raises RunConflict if it was cancelled or has used its max_pages."""
    run, stats = await queue.run(run_id), await queue.stats(run_id)
    if most := used_page_limit(run, stats):
        larger = f"max_pages={stats.completed + stats.dead + most}"
        raise _budget_used(run, stats, most, shoal_command(f"set {run_id} {larger}"))
    return await queue.resume(run_id)


def used_page_limit(run: Run, stats: Stats) -> int | None:
    """Return the max_pages at which a run has ended; None if it may fetch more pages."""
    limit = PAGE_LIMIT.search(run.reason) if run.state is RunState.PARTIAL else None
    return int(limit[1]) if limit and stats.completed + stats.dead >= int(limit[1]) else None


def _budget_used(run: Run, stats: Stats, most: int, command: str) -> RunConflict:
    return RunConflict(
        run.id,
        f"has used its budget: {counted(stats.completed + stats.dead, 'page')} done, max_pages is {most:,}, "
        f"and {counted(stats.remaining, 'task')} left. Raise the limit: {command}",
    )


def check_not_cancelled(run: Run) -> None:
    """Raise RunConflict for a run that was cancelled."""
    if run.state is RunState.CANCELLED:
        raise RunConflict(
            run.id,
            "was cancelled and cannot be resumed. Start a new run: leave out --resume and --run. "
            f"Its items are still there: {shoal_command(export_words(run.id))}",
        )


async def check_steps(queue: QueueReports, run: Run, scraper: Scraper) -> None:
    """Raise RunConflict if the run has tasks of a step that the scraper lacks: all would be buried."""
    known = {*scraper.steps, SEED_STEP, INVALID_SEED}
    for step, counts in (await queue.stats(run.id)).steps.items():
        if counts.remaining and step not in known and run.scraper == scraper.name:
            raise RunConflict(
                run.id,
                f"has {counted(counts.remaining, 'task')} left for step {step!r}, which {scraper.name!r} "
                f"does not have. If it was renamed, keep its name: @{scraper.name}.step(name={step!r}). "
                f"To give these tasks up, add a step {step!r} that yields nothing",
            )


async def end_at_budget(queue: Queue, run: Run, scraper: Scraper) -> None:
    """End a run that has reached its page limit, if no worker has done so."""
    if most := scraper.settings.max_pages:
        await PageLimit(queue, run.id, most).end_if_used()


async def pause(queue: Queue, run_id: str) -> Run:
    """Pause a run; a finished one that no worker works on stays as it is."""
    run, stats = await queue.run(run_id), await queue.stats(run_id)
    snapshot = await snapshot_of(queue, run, stats)
    if snapshot.is_finished and not await has_workers(queue, run_id):
        return run
    return await queue.pause(run_id)


async def cancel(queue: Queue, run_id: str) -> Run:
    """Cancel a run; a finished one stays as it is."""
    run, stats = await queue.run(run_id), await queue.stats(run_id)
    if Snapshot(run, stats, 0, 0.0, None).is_finished:
        return run
    return await queue.cancel(run_id)


async def purge(queue: Queue, run_id: str, *, keeps_numbers: bool = False) -> None:
    """Delete a run with all that belongs to it; the numbers of its items may stay, for later runs.

    Cached pages, the history of `dedup` and of recrawls are shared by runs: they stay until they expire.
    """
    run = await queue.run(run_id)
    await forget_record(queue, run, keeps_numbers=keeps_numbers)
    await forget_failed_pages(queue, run_id)
    await queue.purge(run_id)
    for topic in (
        trap_topic(run_id),
        left_out_topic(run_id),
        stats_topic(run_id),
        partitions_topic(run_id),
        index_topic("pages", run.scraper, run_id),
        index_topic("changes", run.scraper, run_id),
    ):
        await queue.trim_notes(topic, max_bytes=0)
    await queue.write_notes(BUDGETS, {run_id: None})
    await write_plan(queue, run_id, None)
    await forget_cuts(queue, run_id)
    await forget_settings(queue, run_id)
    await forget_hook_records(queue, run_id)
    await write_args(queue, run_id, None)
    await mark_seeded(queue, run_id)
    await forget_rates(queue, run_id)


async def is_new(queue: QueueReports, run_id: str | None) -> bool:
    """Return whether no run has this id yet."""
    if run_id is None:
        return True
    try:
        await queue.run(run_id)
    except UnknownRun:
        return True
    return False


@asynccontextmanager
async def discarded_if_refused(
    queue: Queue, run: Run, *, is_new: bool, keeps_empty: bool = False
) -> AsyncIterator[None]:
    """Delete a run that was just created if its start is refused or fails before any task is stored.

    One that got no task is deleted too, unless it `keeps_empty`.
    """
    try:
        yield
    except (InvalidInput, ScraperBusy):
        await _discard_if(queue, run, is_new, _is_untouched)
        raise
    except Exception:
        await _discard_if(queue, run, is_new, lambda stats: not stats.tasks)
        raise
    if is_new and not keeps_empty and not (await queue.stats(run.id)).tasks:
        await purge(queue, run.id)


async def _discard_if(queue: Queue, run: Run, is_new: bool, condition: Callable[[Stats], bool]) -> None:
    with suppress(QueueError):  # the reason for the failed start is raised; or it was already purged
        if is_new and condition(await queue.stats(run.id)):
            await discard(queue, run)


async def discard(queue: Queue, run: Run) -> None:
    """Delete a run whose start was refused, unless other runs skip what it has queued."""
    tasks = (await queue.stats(run.id)).tasks
    if not tasks or run.settings.dedup is None:
        await purge(queue, run.id)
        return
    log.warning(
        "Run %s is kept, with %s tasks: other runs skip them as duplicates. Resume it: --resume %s. "
        "Or allow them to be queued again: %s, then %s",
        run.id,
        f"{tasks:,}",
        run.id,
        shoal_command(f"purge {run.id}"),
        shoal_command(f"forget {run.scraper}"),
    )


def _is_untouched(stats: Stats) -> bool:
    return stats.tasks == stats.pending + stats.delayed
