"""The functions of a Python shell, without the network."""

import asyncio

from shoal.cli.shell.session import ShellSession
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.testing import page

URL = "https://books.example/"


def test_a_page_is_fetched_in_a_shell_and_in_a_cell_that_awaits(monkeypatch):
    async def fetch_page(session, url, headers, task):
        await asyncio.sleep(0)
        return page("<p>1</p>", url=url)

    async def in_a_cell():
        return session.fetch(URL)

    monkeypatch.setattr(ShellSession, "_fetch", fetch_page)
    session = ShellSession(ScraperSettings())
    assert session.fetch(URL).url == asyncio.run(in_a_cell()).url == URL
