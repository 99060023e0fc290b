"""Leases, runs, workers and hosts with defaults for what a test does not care about."""

from datetime import UTC, datetime
from typing import Any

from shoal.core.model import (
    MINUTE,
    SECOND,
    ZERO,
    Counts,
    HostStatus,
    Lease,
    Run,
    RunSettings,
    RunState,
    Task,
    WorkerStatus,
)


def make_lease(task: Task | None = None, **fields: Any) -> Lease:
    """Return the first lease of a task."""
    given = {"run_id": "r", "task_id": "t", "token": 1, "attempt": 1, "start_in": ZERO, "deadline_in": MINUTE}
    return Lease(**given | {"task": task or Task()} | fields)


def make_run(**fields: Any) -> Run:
    """Return a run that goes on."""
    given = {"id": "r", "scraper": "shop", "settings": RunSettings(), "state": RunState.RUNNING}
    return Run(**given | {"started_at": datetime.now(UTC)} | fields)


def make_worker(**fields: Any) -> WorkerStatus:
    """Return a worker that sent its last heartbeat a second ago and has done nothing yet."""
    given = {"run_id": "r", "state": "running", "last_beat": SECOND, "info": {}}
    counts = {"leased": 0, "completed": 0, "failed": 0, "items": 0}
    return WorkerStatus(**given | counts | fields)


def make_host(host: str, **fields: Any) -> HostStatus:
    """Return a host without tasks that has no gap of its own and is not paused."""
    return HostStatus(**{"host": host, "counts": Counts(), "delay": None, "paused_for": None} | fields)
