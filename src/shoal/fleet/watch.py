"""The logs and the metrics of one launch, from its first moment to its last."""

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext

from shoal.core.events import RUN_BEGUN, RUN_ENDED, Level
from shoal.core.model import Run
from shoal.fleet.crew import Crew
from shoal.fleet.logs import Library, LogPlan
from shoal.fleet.metrics import CrewMetrics, need_library
from shoal.fleet.metrics_server import MetricsServer
from shoal.worker.telling import Overheard


@contextmanager
def logs_of(plan: LogPlan | None, run: Run, secrets: list[str]) -> Iterator[Library]:
    """Keep the books of a launch; what Shoal's own parts say meanwhile is in the fleet's."""
    with Library(plan, secrets=secrets) as library:
        library.fleet.note(Level.INFO, RUN_BEGUN, run=run.id, scraper=run.scraper)
        with _overhearing(library, run.id) if plan else nullcontext():
            yield library
        library.fleet.note(Level.INFO, RUN_ENDED, run=run.id, scraper=run.scraper)


@asynccontextmanager
async def metrics_of(
    address: tuple[str, int] | None, crew: Crew, run: Run, say: Callable[[str], None]
) -> AsyncIterator[CrewMetrics]:
    """Serve the metrics of a launch at an address, and say where; without an address nobody is served."""
    metrics = CrewMetrics(crew, run)
    if address is None:
        yield metrics
        return
    need_library()
    async with MetricsServer(address, metrics.text) as server:
        say(f"Metrics are at {server.url}")
        yield metrics


@contextmanager
def _overhearing(library: Library, run_id: str) -> Iterator[None]:
    ear = Overheard(lambda event: library.fleet.put(event, run=run_id), library.level)
    logger = logging.getLogger("shoal")
    logger.addHandler(ear)
    try:
        yield
    finally:
        logger.removeHandler(ear)
