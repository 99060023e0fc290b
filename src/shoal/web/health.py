"""Whether the server is there, whether its queue answers, and metrics for Prometheus."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shoal.core.errors import QueueError
from shoal.fleet.metrics import QueueMetrics
from shoal.fleet.metrics_server import TEXT
from shoal.queue.contract import Queue
from shoal.web.api.params import TROUBLES
from shoal.web.api.receipts import Health

router = APIRouter(tags=["health"])
PATIENCE = 2.0  # seconds
ASK_EVERY = 1.0
TOPIC = "web health"  # nothing is ever written there


@dataclass(slots=True)
class Pulse:
    """Whether the queue answers, as of the last second: strangers ask this, and must not keep it busy."""

    queue: Queue
    _is_there: bool = field(default=False, init=False)
    _asked_at: float = field(default=float("-inf"), init=False)
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def is_there(self) -> bool:
        """Ask the queue for next to nothing."""
        async with self._asking:
            if time.monotonic() - self._asked_at >= ASK_EVERY:
                self._is_there = await self._answers()
                self._asked_at = time.monotonic()
        return self._is_there

    async def _answers(self) -> bool:
        with suppress(QueueError, TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self.queue.notes(TOPIC, ["-"])
                return True
        return False


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", response_model=Health)
async def healthz() -> dict[str, str]:
    """Say that the server is there."""
    return {"status": "ok"}


@router.head("/readyz", include_in_schema=False)
@router.get(
    "/readyz",
    response_model=Health,
    responses={503: {"model": Health, "description": "The queue does not answer"}},
)
async def readyz(request: Request) -> Response:
    """Say whether the queue answers."""
    pulse: Pulse = request.app.state.pulse
    is_there = await pulse.is_there()
    return JSONResponse({"status": "ready" if is_there else "unavailable"}, 200 if is_there else 503)


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        **{status: TROUBLES[status] for status in (401, 421, 429, 503)},
        200: {"description": "Prometheus' text", "content": {"text/plain": {"schema": {"type": "string"}}}},
    },
)
async def metrics(request: Request) -> Response:
    """Show what is in the queue, as `shoal metrics` writes it."""
    found: QueueMetrics = request.app.state.metrics
    return Response(await found.text(), media_type=TEXT)
