"""Politeness as the hosts see it: the moments at which requests arrive."""

import asyncio
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

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
