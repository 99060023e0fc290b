"""A real server with its own queue, and a real browser."""

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

from shoal.fetch.browser.cdp import CdpConnection
from shoal.fleet.app import App
from shoal.fleet.connect import connect
from shoal.queue.contract import Queue
from shoal.web.app import make_app
from shoal.web.auth import Credentials
from shoal.web.context import WebContext, WebSettings
from shoal.web.sampler import Sampler
from shoal.web.server import bind, server_config
from tests.conftest import or_skip
from tests.integration.web.browser import BrowserTab, chromium, find_browser, open_tab

OPERATOR, READER = "operator-0123456789abcdef", "reader-0123456789abcdefgh"
INTERVAL = timedelta(milliseconds=100)


@dataclass
class Dashboard:
    """A running server and its app."""

    app: App
    context: WebContext

    @property
    def queue(self) -> Queue:
        return self.app.queue

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.context.settings.port}"

    def client(self, token: str = OPERATOR) -> httpx2.AsyncClient:
        """Return a client that sends a token."""
        headers = {"Authorization": f"Bearer {token}"}
        return httpx2.AsyncClient(base_url=self.address, headers=headers, timeout=30)

    async def log_in(self, tab: BrowserTab, role: str = "operator") -> None:
        """Set the session cookie of a role in a tab."""
        credentials = Credentials(self.context.settings)
        await tab.call(
            "Network.setCookie",
            url=self.address,
            name=credentials.cookie,
            value=credentials.new_session("reader" if role == "reader" else "operator"),
            httpOnly=True,
            sameSite="Strict",
        )


@asynccontextmanager
async def serving(web: FastAPI, at: Any) -> AsyncIterator[None]:
    """Serve an app in this process."""
    server = Server(server_config(web, is_behind_https=False))
    running = asyncio.create_task(server.serve(sockets=[at]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield
    finally:
        server.should_exit = True
        await running


@asynccontextmanager
async def open_dashboard(
    folder: Path, interval: timedelta = INTERVAL, url: str | None = None
) -> AsyncIterator[Dashboard]:
    """Start a server for a queue in a folder, or at a URL."""
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(connect(url or f"sqlite:///{folder}/queue.db", folder=folder))
        at = bind("127.0.0.1", 0)
        settings = WebSettings.read(port=at.getsockname()[1], operator_token=OPERATOR, reader_token=READER)
        context = WebContext(app, Sampler(app.queue, interval=interval), settings)
        await stack.enter_async_context(serving(make_app(context), at))
        stack.callback(context.sampler.close)  # before the server, which waits for its streams
        yield Dashboard(app, context)


@pytest.fixture
async def dashboard(tmp_path: Path) -> AsyncIterator[Dashboard]:
    async with open_dashboard(tmp_path) as opened:
        yield opened


@pytest.fixture
async def browser() -> AsyncIterator[CdpConnection]:
    or_skip(find_browser)
    async with chromium() as wire:
        yield wire


@pytest.fixture
async def tab(browser: CdpConnection, dashboard: Dashboard) -> BrowserTab:
    """A tab with an operator logged in."""
    opened = await open_tab(browser)
    await opened.size(1280)
    await dashboard.log_in(opened)
    return opened


def all_paths(run_id: str, of_a_run: Sequence[str]) -> list[str]:
    """Return the path of every page."""
    shared = (
        "/",
        "/runs",
        "/scrapers",
        "/scrapers/books",
        "/start",
        "/workers",
        "/hosts",
        "/dead",
        "/actions",
    )
    return [*shared, *(f"/runs/{run_id}{path}" for path in of_a_run)]
