"""A real server on a queue of its own, and a real browser to look at it with."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from uvicorn import Server

from shoal.fetch.browser.wire import Wire
from shoal.fleet.app import App, connect
from shoal.queue.contract import Queue
from shoal.web.app import make_app
from shoal.web.connections import IdleConnections
from shoal.web.guard import Credentials
from shoal.web.sampler import Sampler
from shoal.web.serving import bind, server_config
from shoal.web.site import Site, WebSettings
from tests.conftest import or_skip
from tests.integration.web.window import Window, chromium, find_browser, window

OPERATOR, READER = "operator-0123456789abcdef", "reader-0123456789abcdefgh"
OFTEN = timedelta(milliseconds=100)


@dataclass
class Place:
    """A server that runs, and what stands behind it."""

    app: App
    site: Site

    @property
    def queue(self) -> Queue:
        return self.app.queue

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.site.settings.port}"

    def client(self, token: str = OPERATOR) -> httpx2.AsyncClient:
        """Return a client that shows a token."""
        headers = {"Authorization": f"Bearer {token}"}
        return httpx2.AsyncClient(base_url=self.address, headers=headers, timeout=30)

    async def admit(self, visitor: Window, role: str = "operator") -> None:
        """Give a window the cookie of somebody who has logged in."""
        credentials = Credentials(self.site.settings)
        await visitor.call(
            "Network.setCookie",
            url=self.address,
            name=credentials.cookie,
            value=credentials.session("reader" if role == "reader" else "operator"),
            httpOnly=True,
            sameSite="Strict",
        )


@asynccontextmanager
async def serving(web: FastAPI, at: Any, idle: IdleConnections | None = None) -> AsyncIterator[None]:
    """Serve an app in this process."""
    server = Server(server_config(web, is_behind_https=False, idle=idle))
    running = asyncio.create_task(server.serve(sockets=[at]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield
    finally:
        server.should_exit = True
        await running


@asynccontextmanager
async def opened(
    folder: Path, every: timedelta = OFTEN, url: str | None = None, idle: IdleConnections | None = None
) -> AsyncIterator[Place]:
    """Open a place with a queue in a folder, or at an address."""
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(connect(url or f"sqlite:///{folder}/queue.db", folder=folder))
        at = bind("127.0.0.1", 0)
        settings = WebSettings.read(port=at.getsockname()[1], operator_token=OPERATOR, reader_token=READER)
        site = Site(app, Sampler(app.queue, every=every), settings)
        await stack.enter_async_context(serving(make_app(site), at, idle))
        stack.callback(site.sampler.close)  # before the server, which waits for its streams
        yield Place(app, site)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with opened(tmp_path) as made:
        yield made


@pytest.fixture
async def browser() -> AsyncIterator[Wire]:
    or_skip(find_browser)
    async with chromium() as wire:
        yield wire


@pytest.fixture
async def visitor(browser: Wire, place: Place) -> Window:
    """A window of an operator who has logged in."""
    made = await window(browser)
    await made.size(1280)
    await place.admit(made)
    return made


def every_path(run_id: str, of_a_run: Sequence[str]) -> list[str]:
    """Return where every page is."""
    return ["/", "/runs", "/workers", "/hosts", "/actions", *(f"/runs/{run_id}{path}" for path in of_a_run)]
