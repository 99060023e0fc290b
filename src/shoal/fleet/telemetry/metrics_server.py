"""HTTP server for Prometheus and health checks: serves GET /metrics, GET /healthz and nothing else."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Self

from shoal.core.errors import ShoalError
from shoal.worker.ipc.http_server import HttpReply, HttpRequest, SmallHttpServer

RENDER_TIMEOUT = timedelta(seconds=5)
MAX_CONNECTIONS = 16
TEXT = "text/plain; version=0.0.4; charset=utf-8"

Render = Callable[[], Awaitable[bytes]]


class MetricsServer:
    """Serves what `render` returns while it is open; `/healthz` fails with what `find_problem` returns."""

    def __init__(
        self, address: tuple[str, int], render: Render, find_problem: Callable[[], str] = lambda: ""
    ) -> None:
        host, port = address
        self._render, self._find_problem = render, find_problem
        self._server = SmallHttpServer(host, [port], self._respond, max_connections=MAX_CONNECTIONS)

    @property
    def url(self) -> str:
        """The URL of the metrics."""
        return f"http://{self._server.address}/metrics"

    async def __aenter__(self) -> Self:
        await self._server.open("--metrics")
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._server.close()

    async def _respond(self, request: HttpRequest) -> HttpReply:
        if request.method not in ("GET", "HEAD"):
            return HttpReply(405, b"Use GET.\n")
        path = request.path.partition("?")[0]
        if path not in ("/metrics", "/healthz"):
            return HttpReply(404, b"The metrics are at /metrics, the health check at /healthz.\n")
        is_check = path == "/healthz"
        if is_check and (problem := self._find_problem()):
            return HttpReply(503, f"{problem}\n".encode())
        try:
            async with asyncio.timeout(RENDER_TIMEOUT.total_seconds()):
                text = await self._render()
                return HttpReply(200, b"ok\n" if is_check else text, {"content-type": TEXT})
        except ShoalError as error:
            return HttpReply(503, f"{type(error).__name__}\n".encode())
