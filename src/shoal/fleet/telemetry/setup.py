"""Sets up the logs and metrics of one launch, and the server of metrics and health checks."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from datetime import timedelta
from typing import Any, Self

from shoal.core.errors import ShoalError
from shoal.core.events import RUN_BEGUN, RUN_ENDED, Level
from shoal.core.model import Run
from shoal.core.values import read_host_port
from shoal.fleet.telemetry.logs import LogDirectory, LogPlan
from shoal.fleet.telemetry.metrics import PoolMetrics, WorkerCountsSource, need_library
from shoal.worker.ipc.http_server import HttpReply, HttpRequest, SmallHttpServer
from shoal.worker.telemetry.events import LogForwarder
from shoal.worker.telemetry.tracing import check_tracing

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
        self._rendering: asyncio.Future[bytes] | None = None
        self._server = SmallHttpServer(host, [port], self._respond, max_connections=MAX_CONNECTIONS)

    @property
    def url(self) -> str:
        """The URL of the metrics."""
        return f"http://{self._server.address}/metrics"

    async def __aenter__(self) -> Self:
        await self._server.open("--metrics")
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._rendering:
            self._rendering.cancel()
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
        # Not cancelled when it takes too long: a driver may wait for its server even then.
        if self._rendering is None or self._rendering.done():
            self._rendering = asyncio.ensure_future(self._render())
            # It may fail after the request has been answered.
            self._rendering.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.wait([self._rendering], timeout=RENDER_TIMEOUT.total_seconds())
        try:
            text = self._rendering.result()
        except asyncio.InvalidStateError:
            return HttpReply(503, b"The queue does not respond.\n")
        except ShoalError as error:
            return HttpReply(503, f"{type(error).__name__}\n".encode())
        return HttpReply(200, b"ok\n" if is_check else text, {"content-type": TEXT})


def open_telemetry(plan: LogPlan | None, metrics: str | None, trace: bool, *, key: str) -> dict[str, Any]:
    """Return the fields of a job; raises for wrong settings or missing libraries before anything starts."""
    if plan:
        plan.check()
    if metrics:
        need_library()
    if trace:
        check_tracing()
    return {"logs": plan, "metrics": read_host_port(key, metrics) if metrics else None, "trace": trace}


@contextmanager
def logs_of(plan: LogPlan | None, run: Run, secrets: list[str]) -> Iterator[LogDirectory]:
    """Open the logs of a launch; what Shoal's own loggers emit meanwhile goes to the fleet's log."""
    with LogDirectory(plan, secrets=secrets) as logs:
        logs.fleet.log(Level.INFO, RUN_BEGUN, run=run.id, scraper=run.scraper)
        with _forward_own_logs(logs, run.id) if plan else nullcontext():
            yield logs
        logs.fleet.log(Level.INFO, RUN_ENDED, run=run.id, scraper=run.scraper)


@asynccontextmanager
async def metrics_of(
    address: tuple[str, int] | None, pool: WorkerCountsSource, say: Callable[[str], None]
) -> AsyncIterator[PoolMetrics]:
    """Serve the metrics of a launch at an address, and report the URL; without one nothing is served."""
    metrics = PoolMetrics(pool)
    if address is None:
        yield metrics
        return
    need_library()

    async with MetricsServer(address, metrics.text, metrics.find_problem) as server:
        say(f"Metrics are at {server.url}")
        yield metrics


@contextmanager
def _forward_own_logs(logs: LogDirectory, run_id: str) -> Iterator[None]:
    handler = LogForwarder(lambda event: logs.fleet.write(event, run=run_id), logs.level)
    logger = logging.getLogger("shoal")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
