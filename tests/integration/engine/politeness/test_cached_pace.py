"""A page that is at hand costs its host nothing: neither a request nor a turn."""

import asyncio
import json
import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

PAGES = int(os.environ.get("SHOAL_PAGES", "60"))
SHOP = """
    shop = Scraper("shop", rate=None, robots={robots}, per_host=4)

    @shop.step
    async def page(page: Page):
        yield {{"url": page.url}}
"""
DELAY = 1.0
WHOLE = ["cache=10m"]


@pytest.fixture
def clocked():
    """A host, and a way to end it and have its moments."""
    script = Path(__file__).parents[1] / "clocked_origin.py"
    process = subprocess.Popen(
        [sys.executable, str(script), "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    (port,) = json.loads(process.stdout.readline())
    process.url = f"http://127.0.0.1:{port}"
    yield process
    process.kill()
    process.communicate()  # closes its pipes


def moments(clocked):
    (times,) = json.loads(clocked.communicate()[0]).values()
    return sorted(times)


async def fill(bench, urls, robots=False):
    """Let pages be kept."""
    summary = await bench.run(SHOP.format(robots=robots), urls, changes=WHOLE, workers=1)
    assert summary.snapshot.stats.completed == len(urls)


@pytest.mark.long
async def test_a_host_whose_pages_are_all_cached_is_crawled_at_full_speed(bench, clocked):
    urls = [f"{clocked.url}/{page}" for page in range(PAGES)]
    await fill(bench, urls, robots=True)
    began = time.monotonic()
    async with asyncio.timeout(60):
        summary = await bench.run(SHOP.format(robots=True), urls, changes=[*WHOLE, "rate=1/s"], workers=1)
    took = time.monotonic() - began
    assert summary.snapshot.stats.completed == summary.ending.tally.from_cache == PAGES
    assert took < PAGES / 3  # at the pace of the host it would take three times as long
    assert len(moments(clocked)) == PAGES + 1  # with robots.txt


async def half_kept(bench, clocked, scraper, pages):
    """Go through pages of which every other one is at hand; return when the host was asked for the others."""
    urls = [f"{clocked.url}/{page}" for page in range(pages)]
    await fill(bench, urls[::2])
    rate = f"{1 / DELAY:g}/s"
    async with asyncio.timeout(60 + pages):
        summary = await bench.run(scraper, urls, changes=[*WHOLE, f"rate={rate}"], workers=3)
    assert (summary.snapshot.stats.completed, summary.ending.tally.from_cache) == (pages, pages // 2)
    return moments(clocked)[pages // 2 :]


@pytest.mark.alone
async def test_a_host_whose_pages_are_partly_cached_keeps_its_rate(bench, clocked):
    pages = PAGES // 5
    times = await half_kept(bench, clocked, SHOP.format(robots=False), pages)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert len(times) == pages // 2
    assert min(gaps) >= 0.95 * DELAY, sorted(gaps)[:5]
    assert sum(gaps) <= 1.5 * len(gaps) * DELAY  # and no slower than it may be
