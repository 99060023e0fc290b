"""What workers have spent on links of one kind, told through the queue."""

import asyncio
from collections import Counter
from datetime import date

import pytest

from shoal.core.model import Task
from shoal.queue.open import open_queue
from shoal.scrape.links import budgets
from shoal.scrape.links.filter import LinkFilter
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.worker.shared_budgets import TrapBudgetSync

WORKERS, CALENDAR = 4, 300


@pytest.fixture(autouse=True)
def small_budget(monkeypatch):
    monkeypatch.setattr(budgets, "CALENDAR", CALENDAR)


def make_filter():
    return LinkFilter(ScraperSettings.read(scope="any"), today=lambda: date(2026, 6, 1))


def sheets(first, count):
    """Return pages of a calendar that has a new one for every click."""
    urls = [f"http://a.example/calendar/2026/{1 + n % 12}?p={n}" for n in range(first, first + count)]
    return [Task(url=url, depth=1) for url in urls]


async def followed(url, exchange):
    """Let workers follow a calendar without end, a hundred links between two looks; count what passed."""
    home, passed = Task(url="http://a.example/"), 0
    async with open_queue(url) as queue:
        link_filters = [make_filter() for _ in range(WORKERS)]
        told = [TrapBudgetSync(queue, link_filter, "run") for link_filter in link_filters]
        for round_ in range(40):
            for number, link_filter in enumerate(link_filters):
                links = sheets(100 * round_ + 25 * number, 25)
                passed += len(link_filter.filter(links, home, Counter()))
            if exchange:
                await asyncio.gather(*(one.exchange() for one in told))
    return passed


async def test_a_fleet_follows_a_trap_about_as_far_as_one_worker_would(any_bench):
    # All tell at once, so that some are not quick enough, and hear of the rest a look later.
    assert CALENDAR <= await followed(any_bench.queue_url, exchange=True) <= CALENDAR + 3 * 100


async def test_workers_that_do_not_tell_each_other_follow_it_several_times_as_far(bench):
    assert await followed(bench.queue_url, exchange=False) == WORKERS * CALENDAR


async def test_what_one_worker_finds_to_be_a_maze_is_a_maze_to_all(any_bench):
    async with open_queue(any_bench.queue_url) as queue:
        link_filters = [make_filter() for _ in range(3)]
        told = [TrapBudgetSync(queue, link_filter, "run") for link_filter in link_filters]
        link_filters[0].add_mazes([("main", "a.example/maze/")])
        link_filters[1].add_mazes([("main", "b.example/maze/")])
        for one in [*told, *told]:
            await one.exchange()
    task = Task(url="http://a.example/maze/1", depth=3)
    mazes = {("main", "a.example/maze/"), ("main", "b.example/maze/")}
    assert [one.mazes for one in link_filters] == [mazes] * 3
    assert all(one.find_maze(task) for one in link_filters)
