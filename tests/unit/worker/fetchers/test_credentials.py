"""Which logins end their worker."""

import asyncio
from datetime import timedelta

import pytest

from shoal.core.errors import LoginBroken, NoSession
from shoal.core.http import Request
from shoal.fetch.sessions.pool import Session
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.worker.background import Background
from shoal.worker.fetchers.credentials import MAX_CODE_ERRORS, _log_in_with, with_sessions


class Pauses:
    """A queue of which only the pauses of hosts are used."""

    async def pause_host(self, host, duration):
        pass


class NoNetwork:
    async def close(self):
        pass


async def fetch_until_it_ends(login, monkeypatch, tries):
    monkeypatch.setattr("shoal.fetch.sessions.pool.MIN_WAIT", timedelta(milliseconds=1))
    fetcher = with_sessions(ScraperSettings.read(sessions=1), Pauses(), NoNetwork(), login)

    async def fetch():
        for _ in range(tries):
            with pytest.raises(NoSession) as caught:
                await fetcher.fetch(Request(url="https://shop.test/"))
            await asyncio.sleep(caught.value.after.total_seconds())

    await Background().run(fetch())


async def test_a_login_whose_code_fails_each_time_ends_the_worker_and_names_its_line(monkeypatch):
    logins = []

    async def log_in(session):
        logins.append(session)
        return {}["PASSWORD"]

    with pytest.raises(LoginBroken, match=r"failed 3 times.*KeyError: 'PASSWORD' \(test_credentials"):
        await fetch_until_it_ends(log_in, monkeypatch, tries=6)
    assert len(logins) == MAX_CODE_ERRORS


async def test_a_login_that_is_refused_is_tried_again_without_end(monkeypatch):
    logins = []

    async def log_in(session):
        logins.append(session)
        return False

    await fetch_until_it_ends(log_in, monkeypatch, tries=6)
    assert len(logins) > MAX_CODE_ERRORS


async def test_a_login_that_has_worked_before_ends_no_worker(monkeypatch):
    logins = []

    async def log_in(session):
        logins.append(session)
        if len(logins) > 1:
            raise AttributeError("the page is another for a moment")

    fill = _log_in_with(log_in, ScraperSettings.read())
    await fill(Session(0), "https://shop.test", None)
    for _ in range(MAX_CODE_ERRORS + 1):
        with pytest.raises(AttributeError):
            await fill(Session(0), "https://shop.test", None)
