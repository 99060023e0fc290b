"""A run that starts with a feed: from the command line, from the project file, and from Python."""

import asyncio
import json
import os
import signal

import pytest

from tests.integration.engine.origin import Answer, Origin
from tests.integration.engine.shell import start, typed

SCRAPER = """
from shoal import Scraper

news = Scraper("news", rate=None, robots=False, allow_private="127.0.0.0/8")

@news.step
def story(page):
    yield {"url": page.url, **page.payload}
"""


def answer(path):
    if path != "/feed":
        return Answer("<h1>A story</h1>")
    item = "<item><title>Story {0}</title><link>/s/{0}</link><guid>g{0}</guid></item>"
    items = "".join(item.format(number) for number in range(3))
    return Answer(
        f'<rss version="2.0"><channel>{items}</channel></rss>',
        headers={"Content-Type": "application/rss+xml"},
    )


@pytest.fixture
async def site():
    async with Origin(answer) as site:
        yield site


@pytest.mark.parametrize("way", ["option", "project", "python"])
async def test_each_entry_of_a_feed_is_fetched_with_what_the_feed_says(way, site, tmp_path):
    (tmp_path / "news.py").write_text(SCRAPER)
    if way == "option":
        ran = await typed("run", "news.py", "--feed", f"{site.url}/feed", "--out", "i.jsonl", folder=tmp_path)
        assert ran.code == 0, ran.err
        assert "Feeds: 3 URLs in 1 file." in ran.err
        items = [json.loads(line) for line in (tmp_path / "i.jsonl").read_text().splitlines()]
    elif way == "project":
        seeds = f'[scrapers.news.seeds]\nfeed = "{site.url}/feed"\n'
        (tmp_path / "shoal.toml").write_text(f'[scrapers.news]\nmodule = "news.py:news"\n{seeds}')
        ran = await typed("run", "news", "--out", "i.jsonl", folder=tmp_path)
        assert ran.code == 0, ran.err
        items = [json.loads(line) for line in (tmp_path / "i.jsonl").read_text().splitlines()]
    else:
        names = {"__name__": "news"}
        exec(SCRAPER, names)
        items = (await names["news"].run(feed=f"{site.url}/feed", progress=False)).items
    assert sorted(items, key=lambda item: item["id"]) == [
        {"url": f"{site.url}/s/{number}", "id": f"g{number}", "title": f"Story {number}"}
        for number in range(3)
    ]


async def test_a_run_that_is_killed_while_it_reads_its_feeds_reads_them_again_when_resumed(tmp_path):
    (tmp_path / "news.py").write_text(SCRAPER)
    reached = asyncio.Event()

    def slow(path):
        if path != "/late":
            return answer(path)
        is_first = not reached.is_set()
        reached.set()
        feed = "<rss version='2.0'><channel><item><link>/s/9</link></item></channel></rss>"
        return Answer(feed, after=60.0 if is_first else 0.0)

    async with Origin(slow) as site:
        feeds = ("--feed", f"{site.url}/feed", "--feed", f"{site.url}/late")
        process = await start("run", "news.py", *feeds, folder=tmp_path)
        await asyncio.wait_for(reached.wait(), 60)
        os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()
        ran = await typed("run", "news.py", "--resume", "newest", "--out", "i.jsonl", folder=tmp_path)
    assert ran.code == 0, ran.err
    assert "were not read to the end, and are read again" in ran.err
    urls = [json.loads(line)["url"] for line in (tmp_path / "i.jsonl").read_text().splitlines()]
    assert sorted(urls) == [f"{site.url}/s/{number}" for number in (0, 1, 2, 9)]
