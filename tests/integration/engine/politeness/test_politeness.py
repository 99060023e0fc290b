"""Politeness as the hosts see it: the moments at which requests arrive."""

import asyncio
import json
import subprocess
import sys
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from shoal.core.model import Task
from tests.integration.engine.origin import Answer, Origin

HOSTS, PAGES, DELAY = 10, 25, 0.2
POLITE = """
    polite = Scraper("polite", rate="5/s", robots=False, per_host=10)

    @polite.step
    async def page(page: Page):
        yield {"url": page.url}
"""


@pytest.fixture
def clocked():
    """Ports that are hosts, and a way to end them and have their moments."""
    script = Path(__file__).parents[1] / "clocked_origin.py"
    process = subprocess.Popen(
        [sys.executable, str(script), str(HOSTS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    process.ports = json.loads(process.stdout.readline())
    yield process
    process.kill()
    process.communicate()  # closes its pipes


@pytest.mark.alone
async def test_no_host_is_asked_more_often_than_it_may_be_by_four_workers(bench, clocked):
    urls = [f"http://127.0.0.1:{port}/{page}" for page in range(PAGES) for port in clocked.ports]
    async with asyncio.timeout(60):
        summary = await bench.run(POLITE, urls, workers=4)
    moments = json.loads(clocked.communicate()[0])
    assert summary.snapshot.stats.completed == HOSTS * PAGES
    gaps = [later - earlier for times in moments.values() for earlier, later in pairwise(sorted(times))]
    # A busy machine may wake a process late; what the queue hands out is exact, see the conformance suite.
    early = [gap for gap in gaps if gap < 0.95 * DELAY]
    assert min(gaps) > 0.5 * DELAY
    assert len(early) <= 0.05 * len(gaps)
    spans = [max(times) - min(times) for times in moments.values()]
    assert HOSTS * (PAGES - 1) * DELAY / sum(spans) > 0.9


async def test_the_requests_of_steps_to_a_host_are_at_most_per_host_at_a_time_over_all_workers(bench, origin):
    origin.answer = lambda path: Answer(after=0.4)
    summary = await bench.run(
        f"""
        api = Scraper("api", rate=None, per_host=2, robots=False)

        @api.step(fetch=None)
        async def ask(task: Task):
            yield {{"status": (await api.request(f"{origin.url}/{{task.payload['n']}}")).status}}
        """,
        [Task(step="ask", payload={"n": number}) for number in range(12)],
        workers=2,
    )
    starts = [moment for moment, _ in origin.moments]
    assert summary.snapshot.stats.items == len(starts) == 12
    assert min(third - first for first, third in zip(starts, starts[2:], strict=False)) > 0.38


async def test_steps_that_wait_long_for_a_turn_of_their_host_do_not_time_out(bench, origin):
    """The queue of a fleet at a slow host is longer than a step may take; each request moves at the end."""
    summary = await bench.run(
        f"""
        api = Scraper("api", rate="5/s", lease="1s", retries=0, robots=False)

        @api.step(fetch=None)
        async def ask(task: Task):
            for part in "ab":
                await api.request(f"{origin.url}/{{task.payload['n']}}{{part}}")
            yield {{"n": task.payload["n"]}}
        """,
        [Task(step="ask", payload={"n": number}) for number in range(10)],
    )
    stats = summary.snapshot.stats
    assert (stats.completed, stats.dead, len(origin.moments)) == (10, 0, 20)


REDIRECTED = """
    moved = Scraper("moved", rate="4/s", robots=False, scope="any", timeout="2s")

    @moved.step
    async def page(page: Page):
        yield {"url": page.url}
"""


@pytest.mark.parametrize("to_own_host", [True, False])
async def test_redirects_take_a_turn_of_the_host_to_which_they_lead(bench, origin, to_own_host):
    async with AsyncExitStack() as stack:
        others = [origin] if to_own_host else [await stack.enter_async_context(Origin()) for _ in range(6)]
        for other in others:
            other.answer = lambda path: (
                Answer(status=302, headers={"Location": f"{origin.url}/to{path[1:]}"})
                if path.startswith("/from")
                else Answer()
            )
        urls = [f"{others[number % len(others)].url}/from{number}" for number in range(12)]
        summary = await bench.run(REDIRECTED, urls, workers=2)
    gaps = [later - earlier for (earlier, _), (later, _) in pairwise(origin.moments)]
    assert summary.snapshot.stats.items == 12
    assert len([gap for gap in gaps if gap < 0.9 * 0.25]) <= 2 and min(gaps) > 0.1
