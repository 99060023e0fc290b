"""The ASGI app: security middleware, API, pages and event streams."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from starlette.staticfiles import StaticFiles

from shoal.core.tasks import restarted, watched
from shoal.core.version import VERSION
from shoal.fleet.telemetry.metrics import QueueMetrics
from shoal.web import health, stream
from shoal.web.api import dead, fleet, lists, runs, schedules
from shoal.web.api.responses import ERROR_RESPONSES
from shoal.web.auth import Credentials
from shoal.web.context import WebContext
from shoal.web.errors import add_handlers
from shoal.web.middleware import SecurityMiddleware
from shoal.web.pages import login
from shoal.web.pages import router as pages
from shoal.web.pages.login import LoginService

STATIC = Path(__file__).with_name("static")

log = logging.getLogger(__name__)


def make_app(context: WebContext) -> FastAPI:
    """Build the app; its lifespan runs the sampler."""
    app = FastAPI(
        title="Shoal",
        version=VERSION,
        openapi_url="/api/openapi.json",
        docs_url=None,  # these pages load scripts from another server
        redoc_url=None,
        lifespan=_lifespan,
    )
    logins = LoginService(Credentials(context.settings))
    app.state.context, app.state.logins = context, logins
    app.state.queue_health, app.state.metrics = (
        health.QueueHealth(context.app.queue),
        QueueMetrics(context.app.queue, context.app.schedules.all),
    )
    add_handlers(app)
    app.include_router(health.router)
    for part in (fleet, runs, lists, dead, schedules):
        app.include_router(part.router, prefix="/api", responses=ERROR_RESPONSES)
    for router in (login.router, stream.router, pages):
        app.include_router(router, include_in_schema=False)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.add_middleware(
        SecurityMiddleware,
        settings=context.settings,
        credentials=logins.credentials,
        throttle=logins.throttle,
    )
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    context: WebContext = app.state.context
    sampler = context.sampler
    sampling = watched(asyncio.create_task(restarted("Sampling the queue", sampler.run, log.error)))
    try:
        yield
    finally:
        sampler.close()
        ending = [sampling, *context.starts.values()]
        for task in ending:
            task.cancel()
        await asyncio.wait(ending)
