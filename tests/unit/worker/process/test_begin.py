"""Which workers open what they work with before the seeds are enqueued."""

import asyncio
import socket

import pytest

from shoal.core.model import ZERO
from shoal.scrape.scraper import Scraper
from shoal.worker.ipc.protocol import BEGIN
from shoal.worker.process.begin import opens_unnoticed, wait_for_begin


def scraper(**settings):
    made = Scraper("books", **settings)

    @made.step
    async def page(page):
        yield {"title": page.text("h1")}

    return made


def test_a_plain_worker_opens_everything_before_it_begins():
    assert opens_unnoticed(scraper(rate=None, robots=False, headers={"A": "b"}, max_pages=5))


@pytest.mark.parametrize(
    "settings",
    [
        {"fetch": "browser"},
        {"proxies": ["http://127.0.0.1:9"]},
        {"cache": True},
        {"warc": "pages.warc.gz"},
        {"files": "downloads"},
        {"recrawl": True},
        {"tor": True},
    ],
    ids=str,
)
def test_one_that_writes_reserves_or_starts_something_waits_for_the_seeds(settings):
    assert not opens_unnoticed(scraper(**settings))


@pytest.mark.parametrize("kind", ["on_start", "on_finish"])
def test_one_with_hooks_of_its_start_waits_for_the_seeds(kind):
    made = scraper()
    getattr(made, kind)(lambda *_: None)
    assert not opens_unnoticed(made)


def test_one_that_downloads_waits_for_the_seeds():
    made = scraper()

    @made.step(name="file")
    async def keep(page):
        yield page.download("https://a.example/file.pdf")

    assert not opens_unnoticed(made)


async def test_a_worker_begins_when_it_is_told_so():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        waiting = asyncio.create_task(wait_for_begin(theirs))
        ours.send(BEGIN)
        assert await waiting > ZERO


async def test_a_worker_that_waits_in_vain_ends():
    ours, theirs = socket.socketpair()
    with theirs:
        ours.close()
        with pytest.raises(EOFError, match="closed the channel"):
            await wait_for_begin(theirs)
