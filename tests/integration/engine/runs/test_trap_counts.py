"""Pages of a trap that all workers of a run have fetched, counted through the queue."""

import asyncio
from collections import Counter

import pytest

from shoal.core.model import Task
from shoal.queue.open import open_queue
from shoal.scrape.links import traps
from shoal.scrape.links.filter import LinkFilter
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.worker.left_out import TrapCountSync

WORKERS, LIMIT = 4, 300


@pytest.fixture(autouse=True)
def low_limit(monkeypatch):
    monkeypatch.setattr(traps, "LIMIT", LIMIT)


async def fetched(url):
    """Let workers fetch a maze, forty pages between two exchanges; count the pages."""
    pages = 0
    async with open_queue(url) as queue:
        filters = [LinkFilter(ScraperSettings.read()) for _ in range(WORKERS)]
        syncs = [TrapCountSync(queue, one, "run") for one in filters]
        for number in range(2 * WORKERS * LIMIT):
            worker = filters[number % WORKERS]
            page = Task(url=f"http://a.example/maze/{number}", depth=2)
            if worker.find_trap(page):
                continue
            pages += 1
            links = [Task(url=f"http://a.example/maze/x{n}y{number}", depth=3) for n in range(5)]
            worker.filter([*links, Task(url=f"http://a.example/other/{number}", depth=3)], page, Counter())
            if number % 40 == 0:
                await asyncio.gather(*(one.share() for one in syncs))
    return pages


async def test_a_fleet_fetches_about_as_much_of_a_trap_as_one_worker(bench):
    # All share at the same time, so that some are not quick enough, and learn of the rest a round later.
    assert LIMIT <= await fetched(bench.queue_url) <= LIMIT + 2 * 40 + WORKERS * LIMIT // 100
