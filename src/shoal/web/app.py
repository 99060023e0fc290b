"""The web server's app: the door, the API, the pages and the streams."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from starlette.staticfiles import StaticFiles

from shoal.core.tasks import restarted, watched
from shoal.core.version import VERSION
from shoal.fleet.metrics import QueueMetrics
from shoal.web import health, live, login
from shoal.web.answers import add_handlers
from shoal.web.api.router import router as api
from shoal.web.door import Door
from shoal.web.guard import Credentials
from shoal.web.login import Doorkeeper
from shoal.web.pages import router as pages
from shoal.web.site import Site

STATIC = Path(__file__).with_name("static")

log = logging.getLogger(__name__)


def make_app(site: Site) -> FastAPI:
    """Return the app of a site; its lifespan keeps the sampler going."""
    app = FastAPI(
        title="Shoal",
        version=VERSION,
        openapi_url="/api/openapi.json",
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        lifespan=_lifespan,
    )
    keeper = Doorkeeper(Credentials(site.settings))
    app.state.site, app.state.doorkeeper = site, keeper
    app.state.pulse, app.state.metrics = health.Pulse(site.app.queue), QueueMetrics(site.app.queue)
    add_handlers(app)
    for part in (health.router, api):
        app.include_router(part)
    for part in (login.router, live.router, pages):
        app.include_router(part, include_in_schema=False)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.add_middleware(Door, settings=site.settings, credentials=keeper.credentials, throttle=keeper.throttle)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    sampler = app.state.site.sampler
    looking = watched(asyncio.create_task(restarted("Looking at the queue", sampler.run, log.error)))
    try:
        yield
    finally:
        sampler.close()
        looking.cancel()
        await asyncio.wait([looking])
