"""Fetching sitemap files."""

import asyncio
from datetime import timedelta

import pytest

from shoal.core.errors import ConnectFailed, FetchTimeout, HttpStatus, OutOfScope, TooLarge
from shoal.core.model import MINUTE, SECOND
from shoal.discover.sitemaps.fetch import SitemapFetcher
from tests.unit.discover.site import HOME, Site

URL = f"{HOME}/sitemap.xml"


class Waits(list):
    """A sleep that returns at once and records its arguments."""

    async def __call__(self, seconds):
        self.append(seconds)


def getter(site, waits, delay=timedelta(0)):
    return SitemapFetcher(site.fetch, delay=delay, timeout=MINUTE, sleep=waits)


@pytest.mark.parametrize("passing", [503, 500, 429, 408, FetchTimeout(), ConnectFailed()])
async def test_what_may_pass_is_tried_again(passing):
    site, waits = Site({"/sitemap.xml": [passing, passing, b"x"]}), Waits()
    assert (await getter(site, waits).get(URL)).body == b"x"
    assert len(site.asked) == 3
    assert len(waits) == 2


@pytest.mark.parametrize("failure", [503, FetchTimeout()])
async def test_it_is_given_up_after_three_tries(failure):
    site = Site({"/sitemap.xml": failure})
    with pytest.raises((HttpStatus, FetchTimeout)):
        await getter(site, Waits()).get(URL)
    assert len(site.asked) == 3


@pytest.mark.parametrize("failure", [404, 403, 301, 501, TooLarge(), OutOfScope()])
async def test_what_will_not_pass_is_not_tried_again(failure):
    site = Site({"/sitemap.xml": failure})
    with pytest.raises((HttpStatus, TooLarge, OutOfScope)):
        await getter(site, Waits()).get(URL)
    assert len(site.asked) == 1


async def test_a_host_is_left_in_peace_between_two_files():
    site, waits = Site({"/sitemap.xml": b"x"}), Waits()
    getting = getter(site, waits, delay=SECOND)
    for _ in range(3):
        await getting.get(URL)
    assert len(waits) == 2
    assert all(0.5 < wait <= 1 for wait in waits)


async def test_a_cancelled_walk_stops():
    started = asyncio.Event()

    async def hang(request):
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(
        SitemapFetcher(hang, delay=SECOND, timeout=MINUTE, sleep=asyncio.sleep).get(URL)
    )
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
