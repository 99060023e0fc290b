"""Adaptive recrawl on every store: pages are fetched again by the age of their last fetch."""

from collections import Counter
from datetime import timedelta

import pytest

from shoal import Scraper
from shoal.core.errors import InvalidSetting
from shoal.core.http import Headers, Response
from shoal.core.model import Run, Task
from shoal.core.revisits import RevisitBounds, RevisitReason
from shoal.fleet.run.lifecycle import purge
from shoal.fleet.sources.recrawl import compared, earlier_run
from shoal.fleet.sources.revisits import forecast, store_plan
from shoal.fleet.sources.seeds import Seeds
from shoal.queue.contract import Queue
from shoal.scrape.harvest import Harvest
from shoal.worker.recrawl import VisitStore
from shoal.worker.revisits import RevisitChooser
from tests.conformance.backends import Clock

DAY = timedelta(days=1)
BOUNDS = RevisitBounds(DAY, 30 * DAY)
TASKS = [Task(url=f"https://shop.test/{number}", step="product") for number in range(10)]


async def night(queue: Queue, number: int, titles: dict[str, str], budget: int | None = None) -> Counter[str]:
    """Recrawl all pages, of which some have a new title; return how many were fetched, and why."""
    settings = {"recrawl": True, "revisit": BOUNDS, "revisit_pages": budget}
    run = await queue.start_run("shop", run_id=f"night{number}")
    await store_plan(queue, Scraper("shop", **settings), run, Seeds())
    store = VisitStore(queue, "shop", run.id, again=True, chooser=RevisitChooser(queue, run.id, BOUNDS))
    reasons: Counter[str] = Counter()
    for task in TASKS:
        past = await store.read(task)
        reasons[past.reason] += 1
        if past.is_hit:
            store.record_reused(task, past)
            continue
        title = titles.get(task.url or "", "as ever")
        response = Response(url=task.url or "", status=200, headers=Headers([]), body=title.encode())
        same = store.harvest_if_unchanged(past, response)
        await store.record(task, past, response, same or Harvest(items=[{"title": title}]))
    await store.close()
    return reasons


async def run_of(queue: Queue, number: int) -> Run:
    return await queue.run(f"night{number}")


async def test_pages_are_fetched_the_more_often_the_more_they_change(queue: Queue, clock: Clock) -> None:
    url = TASKS[3].url or ""
    fetched = []
    for number in range(9):
        reasons = await night(queue, number, {url: f"Title {number}"})
        fetched.append(reasons[RevisitReason.NEW] + reasons[RevisitReason.DUE])
        await clock.forward(DAY)
    # Intervals of the others are a quarter of the time they are known, less 5 to 25 %.
    assert fetched[:6] == [10] * 6 and fetched[6] < 5 and sum(fetched[6:]) < 20, fetched
    counts = await compared(queue, await run_of(queue, 6))
    assert (counts.changed, counts.unchanged + counts.not_due, counts.gone) == (1, 9, 0)
    assert counts.not_due == 10 - fetched[6]
    report = await forecast(queue, await run_of(queue, 8))
    assert report.known == 10 and report.pages[-1].interval_seconds is not None
    (changing,) = [page for page in report.pages if page.url == url]
    assert (changing.reason, changing.interval_seconds, changing.visits) == ("due", DAY.total_seconds(), 9)
    assert changing.changes == 8


async def test_the_plan_says_what_the_next_run_fetches(queue: Queue, clock: Clock) -> None:
    await night(queue, 0, {}, budget=4)
    await clock.forward(DAY)
    report = await forecast(queue, await run_of(queue, 0))
    reasons = await night(queue, 1, {}, budget=4)
    assert report.reasons == {reason.value: reasons[reason] for reason in RevisitReason}
    assert (report.fetch, reasons[RevisitReason.DUE], reasons[RevisitReason.OVER_BUDGET]) == (4, 4, 6)
    await clock.forward(DAY)
    # What was left is the most overdue now.
    again = await night(queue, 2, {}, budget=6)
    assert (again[RevisitReason.DUE], again[RevisitReason.OVER_BUDGET]) == (6, 4)
    assert [page.visits for page in (await forecast(queue, await run_of(queue, 2))).pages] == [2] * 4
    assert (await compared(queue, await run_of(queue, 1))).over_budget == 6
    await purge(queue, "night1")
    assert await queue.notes("revisit plans", ["night1"]) == {}


async def test_a_run_without_a_plan_fetches_all_pages(queue: Queue) -> None:
    await night(queue, 0, {})
    store = VisitStore(queue, "shop", "calls", again=True, chooser=RevisitChooser(queue, "calls", BOUNDS))
    assert not (await store.read(TASKS[0])).is_hit
    await store.close()


async def test_a_run_begins_with_the_pages_of_the_last_one_that_was_not_stopped(
    queue: Queue, clock: Clock
) -> None:
    shop = Scraper("shop", recrawl=True, revisit=BOUNDS)
    assert await earlier_run(queue, shop) is None
    await night(queue, 1, {})
    await queue.enqueue("night1", TASKS)  # it was stopped
    assert (await earlier_run(queue, shop)) == await run_of(queue, 1)  # better than none
    await clock.forward(DAY)
    await night(queue, 2, {})
    await clock.forward(DAY)
    await queue.enqueue((await queue.start_run("shop", run_id="failed")).id, TASKS[:1])
    await clock.forward(DAY)
    await night(queue, 4, {})
    await queue.enqueue("night4", TASKS)
    assert (await earlier_run(queue, shop)) == await run_of(queue, 2)


async def test_a_run_without_revisit_has_no_plan(queue: Queue) -> None:
    run = await queue.start_run("shop")
    with pytest.raises(InvalidSetting, match="revisit was not set in run"):
        await forecast(queue, run)
