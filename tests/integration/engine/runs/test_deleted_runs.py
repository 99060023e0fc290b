"""A run that is deleted while it is worked on is not taken for a name that was typed wrong."""

import asyncio

import pytest

from shoal.core.errors import RunGone
from shoal.queue.open import open_queue
from tests.integration.engine.conftest import Bench
from tests.integration.engine.origin import Answer

SLOW = """
books = Scraper("books", rate=None, robots=False)

@books.step
async def page(page):
    yield {"url": page.url}
"""


async def test_a_run_whose_store_is_emptied_says_so(tmp_path, redis_url, origin, redis):
    bench = Bench(tmp_path, redis_url)
    origin.answer = lambda path: Answer(after=0.1)
    witness = bench.witness

    def empty(snapshot, pool):
        if snapshot.stats.completed > 5:
            redis.flush()
            witness.on_saw = None

    witness.on_saw = empty
    with pytest.raises(RunGone, match=r"is no longer in the queue: somebody purged it, or .*FLUSHALL"):
        await bench.run(SLOW, [f"{origin.url}/{number}" for number in range(500)], workers=1)
    assert not any("No run is called" in line for line in witness.said_lines), witness.said_lines


async def test_a_run_that_is_purged_meanwhile_says_so(bench, origin):
    origin.answer = lambda path: Answer(after=0.1)
    witness, runs = bench.witness, []

    async def purge():
        async with open_queue(bench.queue_url) as queue:
            runs.extend(await queue.runs())
            await queue.purge(runs[0].id)

    def delete(snapshot, pool):
        if snapshot.stats.completed > 5:
            witness.on_saw = None
            witness.purging = asyncio.create_task(purge())

    witness.on_saw = delete
    with pytest.raises(RunGone):
        await bench.run(SLOW, [f"{origin.url}/{number}" for number in range(500)], workers=1)
    await witness.purging
