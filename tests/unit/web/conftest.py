"""A web app with its own queue, called without a network."""

from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

from shoal.core.model import Bury, Done, Reject, Task
from shoal.fleet.app import App
from shoal.fleet.connect import connect
from shoal.web.app import make_app
from shoal.web.context import WebContext, WebSettings
from shoal.web.sampler import Sampler
from tests.unit.web.tokens import HERE, OPERATOR, READER

PROJECT = '[scrapers.books]\nmodule = "books.py:books"\n'
SCRAPER = """
from shoal import Page, Scraper

books = Scraper("books", rate=None, robots=False)

@books.step
async def listing(page: Page):
    yield {"url": page.url}

@books.step
async def book(page: Page):
    yield {"url": page.url}
"""


_routes = {}


@dataclass
class Dashboard:
    """An app, its web app, and clients for it."""

    folder: Path
    app: App
    web: FastAPI

    @property
    def queue(self):
        return self.app.queue

    def client(self, token=None, *, address="10.0.0.1", **more):
        """Return a client, with a token if one is given."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        transport = httpx2.ASGITransport(self.web, raise_app_exceptions=False, client=(address, 1))
        return httpx2.AsyncClient(
            transport=transport, base_url=HERE, headers=headers | more.pop("headers", {}), **more
        )

    async def make_run(self, pages=3):
        """Return a run with pages that yielded an item, one dead letter and one pending task."""
        run = await self.queue.start_run("books")
        urls = [f"https://shop{n}.example.com/{n}" for n in range(pages + 2)]
        await self.queue.enqueue(run.id, [Task(url=url, step="listing") for url in urls])
        grant = await self.queue.claim("machine-7-abcd", run_id=run.id, limit=pages + 1)
        *good, bad = grant.leases
        await self.queue.beat("machine-7-abcd", run_id=run.id, info={"errors": {"ValueError": 1}})
        reject = Reject(data={"title": ""}, reason="no title")
        await self.queue.settle(
            [Done(one, items=[{"title": one.task.url}], rejects=[reject]) for one in good]
        )
        await self.queue.settle([Bury(bad, "ValueError: no price")])
        return run


@pytest.fixture
def dashboard_with(tmp_path):
    """Opens a dashboard with the settings of a test."""

    def factory(**settings):
        return _DashboardFactory(tmp_path, settings)

    return factory


@pytest.fixture
async def dashboard(dashboard_with):
    async with dashboard_with() as factory:
        yield factory


class _DashboardFactory:
    def __init__(self, folder, settings):
        (folder / "shoal.toml").write_text(settings.pop("project", PROJECT))
        (folder / "books.py").write_text(SCRAPER)
        self._queue = settings.pop("queue", f"sqlite:///{folder}/queue.db")
        self._folder, self._settings = folder, settings

    async def __aenter__(self):
        chosen = {"operator_token": OPERATOR, "reader_token": READER} | self._settings
        self._connection = connect(self._queue, folder=self._folder)
        app = await self._connection.__aenter__()
        context = WebContext(app, Sampler(app.queue), WebSettings.read(**chosen))
        web = make_app(context)
        # FastAPI takes half a second to prepare all routes of an app. None of them depends on the context.
        _routes.setdefault("all", web.router.routes)
        web.router.routes = _routes["all"]
        return Dashboard(self._folder, app, web)

    async def __aexit__(self, *exc_info):
        await self._connection.__aexit__(*exc_info)
