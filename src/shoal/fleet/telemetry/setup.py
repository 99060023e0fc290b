"""Set up the logs and metrics of one launch, and close them at its end."""

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import Any

from shoal.core.events import RUN_BEGUN, RUN_ENDED, Level
from shoal.core.model import Run
from shoal.fleet.telemetry.addresses import read_address
from shoal.fleet.telemetry.logs import LogDirectory, LogPlan
from shoal.fleet.telemetry.metrics import PoolMetrics, WorkerCountsSource, need_library
from shoal.fleet.telemetry.metrics_server import MetricsServer
from shoal.worker.telemetry.events import LogForwarder
from shoal.worker.telemetry.tracing import check_tracing


def open_telemetry(plan: LogPlan | None, metrics: str | None, trace: bool, *, key: str) -> dict[str, Any]:
    """Return the fields of a job; raises for wrong settings or missing libraries before anything starts."""
    if plan:
        plan.check()
    if metrics:
        need_library()
    if trace:
        check_tracing()
    return {"logs": plan, "metrics": read_address(key, metrics) if metrics else None, "trace": trace}


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
