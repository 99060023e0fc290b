"""Debugs a scraper: a job's run is worked on in this process, one task at a time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

import msgspec

from shoal.core.events import Level
from shoal.core.model import Run
from shoal.fleet.dead_workers import new_worker_id
from shoal.fleet.job import Job
from shoal.worker.process.debug import DebugSession


@contextmanager
def temporary_queue() -> Iterator[str]:
    """Yield the URL of an embedded queue that is deleted afterwards."""
    with TemporaryDirectory(prefix="shoal-") as folder:
        yield f"sqlite:///{folder}/queue.db"


def debug_session(job: Job, run: Run, say: Callable[[str], None]) -> DebugSession:
    """Return the session that works on a run in this process."""
    config = msgspec.structs.replace(
        job.worker_config(run),
        worker_id=new_worker_id(),
        concurrency=1,
        batch=1,
        sharing=None,
        listening=None,
        log_level=Level.OFF,
        measure=False,
        trace=False,
    )
    return DebugSession(config, job.scraper, say=say)
