"""A browser that may fetch from this machine by any name, and origins for it."""

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shoal.core.browser_settings import BrowserSettings
from shoal.core.errors import BrowserMissing
from shoal.core.http import Request, Response
from shoal.fetch.browser.fetcher import BrowserFetcher
from shoal.fetch.browser.process import PATHS, VARIABLE, find_chromium
from shoal.fetch.egress import Egress
from tests.cases import long
from tests.conftest import or_skip
from tests.integration.fetch.conftest import LOOPBACK, certificate, loopback, origin, tls_origin
from tests.servers.process import ServerMissing, find_program

__all__ = ["certificate", "origin", "tls_origin"]

SHELL, FULL = "chromium-headless-shell", "chromium"
# Headless shell and full Chromium differ in the requests that they send by themselves.
in_both = pytest.mark.parametrize("program", [SHELL, *long(FULL)], indirect=True)

OpenBrowser = Callable[..., BrowserFetcher]
AGENT = "shoal-test/1.0"


@pytest.fixture
def program(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The browser that the test and all its processes use: the best installed one, unless one is named."""
    name: str | None = getattr(request, "param", None)
    if name is None:
        return or_skip(_best)
    found = or_skip(lambda: find_program(name, name, [Path(place).parent for place in PATHS]))
    monkeypatch.setenv(VARIABLE, str(found))
    return found


def _best() -> Path:
    try:
        return find_chromium()
    except BrowserMissing as error:
        raise ServerMissing(SHELL) from error


@pytest.fixture
async def browse(program: Path) -> AsyncIterator[OpenBrowser]:
    """Opens browsers that are closed after the test."""
    opened: list[BrowserFetcher] = []

    def make(egress: Egress | None = None, limits: Any = None, **settings: Any) -> BrowserFetcher:
        more = {"limits": limits} if limits else {}
        door = egress or Egress([LOOPBACK], lookup=loopback)
        made = BrowserFetcher(
            BrowserSettings(**{"wait": "load", **settings}), egress=door, agent=AGENT, **more
        )
        opened.append(made)
        return made

    yield make
    for fetcher in opened:
        await fetcher.close()


@pytest.fixture
def browser(browse: OpenBrowser) -> BrowserFetcher:
    """A browser with default settings, except for what it waits for."""
    return browse()


async def fetch(fetcher: BrowserFetcher, url: str, *, seconds: float = 20, **more: Any) -> Response:
    """Fetch a page and close it."""
    response = await fetcher.fetch(Request(url=url, timeout=timedelta(seconds=seconds), **more))
    assert response.live is not None
    response.live.release()
    return response
