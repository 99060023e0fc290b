"""Exchanges that are kept, typed as a person would: the cache, the recording, the playback."""

import asyncio
import os
import signal

import pytest

from shoal.cli.exits import Exit
from shoal.export.archive.warc_read import WarcArchive
from shoal.queue.open import open_queue
from tests.integration.engine.origin import Answer, Origin
from tests.integration.engine.shell import start, typed

SCRAPER = """
from shoal import Page, Scraper

shop = Scraper("shop", rate=None, retries=0, allow_private="127.0.0.0/8")

@shop.step
async def listing(page: Page):
    for link in page.links("a"):
        yield page.follow(link, step=product)

@shop.step
async def product(page: Page):
    yield {"path": page.url.partition("://")[2].partition("/")[2], "title": page.text("title")}
"""
PRODUCTS = 12
MOST = 1 << 20


def shop(path):
    """Serve a list of products, one of which has moved and one of which may not be asked."""
    if path == "/robots.txt":
        return Answer("User-agent: *\nDisallow: /staff")
    if path == "/":
        paths = ["/old", "/staff", *(f"/p{number}" for number in range(PRODUCTS))]
        return Answer("".join(f"<a href='{path}'>x</a>" for path in paths))
    if path == "/old":
        return Answer(status=301, headers={"Location": "/new"})
    return Answer(f"<title>Product {path}</title>")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "shop.py").write_text(SCRAPER)
    return tmp_path


@pytest.fixture
def site(origin):
    origin.answer = shop
    return origin


async def run(folder, *words):
    return await typed("run", "shop.py", "--json", *words, folder=folder)


async def items(folder, run_id):
    async with open_queue(f"sqlite:///{folder}/shoal.db") as queue:
        return sorted([item.data["path"] async for item in queue.items(run_id)])


async def test_the_project_may_turn_the_cache_on(folder, site):
    (folder / "shoal.toml").write_text(
        '[scrapers.shop]\nmodule = "shop.py"\ncache = {lifetime = "5m", place = "disk:pages"}\n'
    )
    done = await typed("run", "shop", "--json", f"--url={site.url}/p1", folder=folder)
    assert done.row["from_cache"] == 0
    said = await typed("run", "shop", f"--url={site.url}/p1", folder=folder)
    assert "1 from the cache" in said.err
    assert site.visits["/p1"] == 1


async def test_a_recording_is_played_back_without_a_network_and_says_what_it_lacks(folder, site):
    recorded = await run(folder, f"--url={site.url}/", "--warc", "shop.warc.gz")
    assert recorded.row["completed"] == PRODUCTS + 3
    assert recorded.row["not_followed"]["forbidden by robots.txt"]["count"] == 1
    kept = WarcArchive(folder / "shop.warc.gz", max_body=MOST)
    assert kept.find(f"{site.url}/old").status == 301
    asked = dict(site.visits)
    played = await run(folder, "--playback", "shop.warc.gz")
    assert site.visits == asked  # the site is there, and nobody came
    for key in ("completed", "dead", "items", "not_followed"):
        assert played.row[key] == recorded.row[key]
    assert await items(folder, played.row["run_id"]) == await items(folder, recorded.row["run_id"])
    lacking = await run(folder, "--playback", "shop.warc.gz", f"--url={site.url}/unknown")
    assert lacking.code == Exit.FAILED
    async with open_queue(f"sqlite:///{folder}/shoal.db") as queue:
        (letter,) = [letter async for letter in queue.dead(lacking.row["run_id"])]
    assert "NotRecorded" in letter.error and "--warc" in letter.error
    assert site.visits == asked


@pytest.mark.long
async def test_a_worker_that_is_killed_leaves_a_recording_that_can_be_read(folder):
    async with Origin(lambda path: Answer(shop(path).body, after=0.05)) as site:
        urls = [f"--url={site.url}/p{number}" for number in range(150)]
        recording = ("--warc", "shop.warc.gz", "--set", "robots=false")
        process = await start("run", "shop.py", *urls, *recording, "--concurrency", "4", folder=folder)
        async with asyncio.timeout(60):
            while sum(site.visits.values()) < 40:
                await asyncio.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()
        kept = WarcArchive(folder / "shop.warc.gz", max_body=MOST)
        assert len(kept) >= 25
        first = kept.find(f"{site.url}/p0")
        assert b"Product /p0" in first.body
        gone_on = await run(folder, "--resume", "newest", *recording, "--workers", "2")
    assert gone_on.row["completed"] == 150
    assert len(WarcArchive(folder / "shop.warc.gz", max_body=MOST)) == 150


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--warc", "there.warc.gz", "--url=http://127.0.0.1:1/"], "already exists"),
        (["--playback", "there.warc.gz"], "found no response in there.warc.gz"),
    ],
)
async def test_what_cannot_be_done_is_refused_before_anything_is(folder, words, says):
    (folder / "there.warc.gz").write_bytes(b"x")
    refused = await run(folder, *words)
    assert refused.code == Exit.USAGE
    assert says in refused.row["message"]
    assert not (folder / "shoal.db").exists()
