"""A host that complained comes back to its full pace, as two workers and their queue have it."""

import time

import pytest

from shoal.core.model import ZERO
from shoal.queue.open import open_queue
from tests.integration.engine.origin import Answer

COMPLAINTS = 5
# Each claim that follows a success takes a fifth off the delay, and leases of one claim carry the same delay:
# on a busy machine a claim brings several, so there are pages for many more steps than the sixteen needed.
PAGES = 200
SLOWED = """
    slowed = Scraper("slowed", rate="50/s", robots=False, retries=30)

    @slowed.step
    async def page(page: Page):
        yield {"url": page.url}
"""


@pytest.mark.long
async def test_after_a_storm_of_429_the_host_is_at_full_pace_again(bench, origin):
    complained_at = []

    def answer(path):
        if len(complained_at) < COMPLAINTS:
            complained_at.append(time.monotonic())
            return Answer("slow down", status=429)
        return Answer("<p>page</p>")

    origin.answer = answer
    summary = await bench.run(SLOWED, [f"{origin.url}/{n}" for n in range(PAGES)], workers=2)
    assert (summary.snapshot.stats.completed, len(complained_at)) == (PAGES, COMPLAINTS)
    assert time.monotonic() - complained_at[-1] < 60
    async with open_queue(bench.queue_url) as queue:
        (host,) = [host async for host in queue.hosts(summary.run.id)]
    assert (host.delay or ZERO) == ZERO
