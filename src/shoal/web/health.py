"""Health and readiness checks, and metrics for Prometheus."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shoal.core.errors import QueueError
from shoal.fleet.telemetry.metrics import QueueMetrics
from shoal.fleet.telemetry.setup import TEXT
from shoal.queue.contract import Queue
from shoal.web.api.responses import ERROR_RESPONSES, HealthResponse

router = APIRouter(tags=["health"])
CHECK_TIMEOUT = timedelta(seconds=2)
CHECK_INTERVAL_SECONDS = 1.0
TOPIC = "web health"  # nothing is ever written under it


@dataclass(slots=True)
class QueueHealth:
    """Whether the queue responds; cached for a second, since unauthenticated clients may ask."""

    queue: Queue
    _is_ready: bool = field(default=False, init=False)
    _checked_at: float = field(default=float("-inf"), init=False)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def is_ready(self) -> bool:
        """Make a cheap query, at most once per interval."""
        async with self._lock:
            if time.monotonic() - self._checked_at >= CHECK_INTERVAL_SECONDS:
                self._is_ready = await self._check()
                self._checked_at = time.monotonic()
        return self._is_ready

    async def _check(self) -> bool:
        with suppress(QueueError, TimeoutError):
            async with asyncio.timeout(CHECK_TIMEOUT.total_seconds()):
                await self.queue.notes(TOPIC, ["-"])
                return True
        return False


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz")
async def healthz() -> HealthResponse:
    """Report that the server is running."""
    return HealthResponse("ok")


@router.head("/readyz", include_in_schema=False)
@router.get(
    "/readyz",
    response_model=HealthResponse,
    responses={503: {"model": HealthResponse, "description": "The queue does not respond"}},
)
async def readyz(request: Request) -> Response:
    """Report whether the queue responds."""
    queue_health: QueueHealth = request.app.state.queue_health
    is_ready = await queue_health.is_ready()
    return JSONResponse({"status": "ready" if is_ready else "unavailable"}, 200 if is_ready else 503)


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        **{status: ERROR_RESPONSES[status] for status in (401, 421, 429, 503)},
        200: {
            "description": "Prometheus text format",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
    },
)
async def metrics(request: Request) -> Response:
    """Return the metrics of the queue, as `shoal metrics` writes them."""
    queue_metrics: QueueMetrics = request.app.state.metrics
    return Response(await queue_metrics.text(), media_type=TEXT)
