"""The logs and the metrics of one launch, from its first moment to its last."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from typing import Any

from shoal.core.errors import QueueError
from shoal.core.events import RUN_BEGUN, RUN_ENDED, Level
from shoal.core.model import Run
from shoal.core.tasks import restarted, watched
from shoal.fleet.logs import Library, LogPlan
from shoal.fleet.metrics import CrewMetrics, Staff, need_library
from shoal.fleet.metrics_server import MetricsServer, read_address
from shoal.fleet.progress import Progress
from shoal.queue.contract import Queue
from shoal.worker.telling import Overheard
from shoal.worker.tracing import check_tracing

log = logging.getLogger(__name__)
LOOK_EVERY = 0.5
LAST_LOOK = 5.0  # seconds at most


def watching(plan: LogPlan | None, metrics: str | None, trace: bool, *, key: str) -> dict[str, Any]:
    """Return the fields of a job; raises what is wrong or missing before anything begins."""
    if plan:
        plan.check()
    if metrics:
        need_library()
    if trace:
        check_tracing()
    return {"logs": plan, "metrics": read_address(key, metrics) if metrics else None, "trace": trace}


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
    address: tuple[str, int] | None, crew: Staff, say: Callable[[str], None]
) -> AsyncIterator[CrewMetrics]:
    """Serve the metrics of a launch at an address, and say where; without an address nobody is served."""
    metrics = CrewMetrics(crew)
    if address is None:
        yield metrics
        return
    need_library()
    async with MetricsServer(address, metrics.text) as server:
        say(f"Metrics are at {server.url}")
        yield metrics


@asynccontextmanager
async def seen_by(metrics: CrewMetrics, queue: Queue, run: Run) -> AsyncIterator[None]:
    """Have the metrics know how a run is, for as long as it is worked on."""
    progress = Progress(queue, run.id)
    duty = restarted("Looking at the run for its metrics", lambda: _look(metrics, progress), log.error)
    looking = watched(asyncio.create_task(duty))
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.wait([looking])
        # The last look may have been before the end.
        with suppress(QueueError, TimeoutError):
            async with asyncio.timeout(LAST_LOOK):
                metrics.saw(await progress.look())


async def _look(metrics: CrewMetrics, progress: Progress) -> None:
    while True:
        with suppress(QueueError):
            metrics.saw(await progress.look())
        await asyncio.sleep(LOOK_EVERY)


@contextmanager
def _overhearing(library: Library, run_id: str) -> Iterator[None]:
    ear = Overheard(lambda event: library.fleet.put(event, run=run_id), library.level)
    logger = logging.getLogger("shoal")
    logger.addHandler(ear)
    try:
        yield
    finally:
        logger.removeHandler(ear)
