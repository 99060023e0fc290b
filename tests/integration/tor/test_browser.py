"""A browser behind Tor: whatever its pages load comes by an exit."""

import asyncio

import pytest

from shoal.core.errors import TorDown
from shoal.core.http import Request
from shoal.fetch.tor.sync import read_states
from shoal.queue.open import open_queue
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.worker.fetchers.chain import open_fetchers
from tests.conftest import or_skip
from tests.integration.tor.conftest import UP
from tests.servers.process import find_program

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.full]


@pytest.fixture
def settings(tor_network):
    or_skip(lambda: find_program("chromium", "chromium"))
    return ScraperSettings.read(tor={"torrc": tor_network.torrc}, fetch="browser")


async def test_a_rendered_page_and_all_it_loads_come_by_tor(tor_network, target, settings, tmp_path):
    script = f"<script src='{target.url('/other.js', host='other.test')}'></script><p>Hello"
    target.bodies["/"], target.bodies["/other.js"] = script, "document.title = 'rendered'"
    async with open_queue(f"sqlite:///{tmp_path}/queue.db") as queue:
        opened = await open_fetchers(
            settings, queue, user_agent="shoal", run_id="r", worker_id="w", wanted=["browser"]
        )
        try:
            response = await until_up(opened["browser"], Request(url=target.url()))
            assert list(await read_states(queue, "r")) == ["w"]
        finally:
            for fetcher in opened.values():
                await fetcher.close()
    assert b"<title>rendered</title>" in response.body
    assert {"/", "/other.js"} <= {visit.path for visit in target.visits}
    assert set(target.exits()) <= tor_network.exits
    assert {"site.test", "other.test"} <= set(tor_network.names.asked)


async def until_up(fetcher, request):
    async with asyncio.timeout(UP.total_seconds()):
        while True:
            try:
                return await fetcher.fetch(request)
            except TorDown:
                await asyncio.sleep(0.05)
