"""Adaptive recrawl: the plan by which a run chooses its pages, and what the next run would fetch."""

from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime
from heapq import heappush, heappushpop, nlargest
from itertools import islice

import msgspec
from msgspec.structs import replace

from shoal.core.errors import InvalidSetting
from shoal.core.model import Run, Task
from shoal.core.revisits import PageHistory, RevisitBounds, RevisitPlan, RevisitRank, RevisitReason
from shoal.fleet.sources.recrawl import earlier_run
from shoal.fleet.sources.seeds import Seeds
from shoal.fleet.status.rows.tasks import PlannedPageRow, RecrawlPlanReport
from shoal.queue.contract import Queue
from shoal.scrape.scraper import Scraper
from shoal.worker.recrawl import PageChange, key_of, read_index, read_visit, topic
from shoal.worker.revisits import date_of, read_plan, write_plan

BATCH = 500
SHOWN = 50  # pages of a report


class PlannedPage(msgspec.Struct, frozen=True):
    """A page of an earlier run, and whether and why it is fetched."""

    task: Task
    reason: RevisitReason
    rank: RevisitRank
    history: PageHistory = PageHistory()
    age_seconds: float | None = None  # of its last fetch


async def store_plan(queue: Queue, scraper: Scraper, run: Run, seeds: Seeds) -> None:
    """Store by what a new run chooses its pages, if it has the setting `revisit`."""
    settings = scraper.settings
    if settings.revisit is None:
        return
    has_sitemaps = any(kind == "sitemap" for kind, _, _ in seeds.by_kind())
    plan = RevisitPlan(bounds=settings.revisit, pages=settings.revisit_pages, has_sitemaps=has_sitemaps)
    if plan.pages and (earlier := await earlier_run(queue, scraper, but=run.id)):
        began = await queue.now()
        least = await _least_of_budget(queue, earlier, plan, began)
        plan = replace(plan, least=least, took=await queue.now() - began)
    await write_plan(queue, run.id, plan)


async def forecast(queue: Queue, run: Run, *, limit: int = SHOWN) -> RecrawlPlanReport:
    """Return what the next run would fetch of the pages of a run, if it began now; raises InvalidSetting."""
    stored = await read_plan(queue, run.id)
    if stored is None:
        raise InvalidSetting(
            "revisit",
            f"was not set in run {run.id}. Name a run that had it; or, in the scraper, set recrawl=True and "
            "revisit='1d..30d', and run it once",
        )
    plan = replace(stored[0], least=None)
    counts: Counter[RevisitReason] = Counter()
    pages: list[PlannedPage] = []
    async for batch in _planned(queue, run, plan, await queue.now()):
        counts.update(page.reason for page in batch)
        fetched = [page for page in batch if page.reason.is_fetched]
        pages = nlargest(limit, [*pages, *fetched], key=lambda page: page.rank)
    due = counts[RevisitReason.DUE]
    if plan.pages is not None and due > plan.pages:
        counts += Counter({RevisitReason.OVER_BUDGET: due - plan.pages})
        counts[RevisitReason.DUE] = plan.pages
        left = {page.rank for page in [one for one in pages if one.reason is RevisitReason.DUE][plan.pages :]}
        pages = [page for page in pages if page.rank not in left]
    return RecrawlPlanReport(
        run_id=run.id,
        scraper=run.scraper,
        shortest_seconds=plan.bounds.shortest.total_seconds(),
        longest_seconds=plan.bounds.longest.total_seconds(),
        revisit_pages=plan.pages,
        known=counts.total(),
        fetch=sum(counts[reason] for reason in RevisitReason if reason.is_fetched),
        reasons={reason.value: counts[reason] for reason in RevisitReason},
        pages=[_row(page, plan.bounds) for page in pages],
    )


def _row(page: PlannedPage, bounds: RevisitBounds) -> PlannedPageRow:
    history = page.history
    return PlannedPageRow.of(
        page.task,
        reason=page.reason.value,
        age_seconds=page.age_seconds,
        interval_seconds=bounds.limit(history.interval).total_seconds() if history.visits else None,
        visits=history.visits,
        changes=history.changes,
    )


async def _least_of_budget(queue: Queue, run: Run, plan: RevisitPlan, began: datetime) -> RevisitRank | None:
    """Return the rank of the last page within the budget; None if all pages that are due are within."""
    most, ranks = plan.pages, list[RevisitRank]()
    if most is None:
        return None
    async for batch in _planned(queue, run, plan, began):
        for page in batch:
            if page.reason is RevisitReason.DUE:
                # One more than the budget, to know whether there are more.
                (heappush if len(ranks) <= most else heappushpop)(ranks, page.rank)
    return min(ranks[1:3]) if len(ranks) > most else None


async def _planned(
    queue: Queue, run: Run, plan: RevisitPlan, began: datetime
) -> AsyncIterator[list[PlannedPage]]:
    """Yield the pages of a run in batches, with what the plan says about each at that moment."""
    pages = (
        page.task
        for _, page in await read_index(queue, run.scraper, run.id)
        if page.finding is not PageChange.GONE
    )
    while tasks := list(islice(pages, BATCH)):
        notes = await queue.notes(topic("pages", run.scraper), [key_of(task) for task in tasks])
        took, batch = await queue.now() - began, []
        for task in tasks:
            key = key_of(task)
            note = notes.get(key)
            visit = read_visit(note.value) if note else None
            if note is None or visit is None or not visit.body:
                batch.append(PlannedPage(task, RevisitReason.NEW, RevisitRank(float("inf"), key)))
                continue
            age = note.age - took
            date = date_of(task, age, began, has_sitemaps=plan.has_sitemaps)
            reason, rank = plan.judge(key, visit.history, age, date)
            batch.append(PlannedPage(task, reason, rank, visit.history, age.total_seconds()))
        yield batch
