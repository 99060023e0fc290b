"""Adds tasks to an existing run, and reports what was queued: the same for commands, programs and the API."""

from typing import Any

from msgspec.structs import replace

from shoal.core.model import Run
from shoal.core.values import counted
from shoal.discover.routing import Routes
from shoal.fleet.command_hints import worker_command
from shoal.fleet.job import Job
from shoal.fleet.run.feed import InvalidSeeds, OnInvalid
from shoal.fleet.run.open_run import RunEnqueueReport, StartOptions, open_run
from shoal.fleet.sources.seeds import Seeds
from shoal.fleet.status.rows.row import as_json
from shoal.queue.contract import Queue


async def fill(
    queue: Queue, job: Job, run: Run, routes: Routes, seeds: Seeds, *, on_invalid: OnInvalid = "skip"
) -> RunEnqueueReport:
    """Enqueue the tasks of all sources into an existing run; raises RunConflict if it cannot be resumed."""
    # An ended run is reopened, or the error says why not: otherwise no worker would do the new tasks.
    options = StartOptions(
        run_id=run.id, resume=True, routes=routes, invalid=InvalidSeeds(on_invalid), adds=True
    )
    async with open_run(queue, replace(job, joins=True), seeds, options) as opened:
        return await opened.enqueue()


async def ends_as_nothing_new(queue: Queue, run: Run, report: RunEnqueueReport) -> bool:
    """Return whether earlier runs have queued all tasks of a new run; if so, end it."""
    if report.added or not report.known:
        return False
    await queue.finish(run.id, f"nothing new: earlier runs have queued {counted(report.known, 'task')}")
    return True


def filled_row(job: Job, run: Run, report: RunEnqueueReport) -> dict[str, Any]:
    """Return the fields that `shoal enqueue --json` promises of a run that was filled."""
    return {
        "status": "queued",
        "run_id": run.id,
        "enqueued": report.added,
        "duplicate": report.duplicate,
        "known": report.known,
        "invalid": report.invalid,
        "refused": [as_json(one) for one in report.refused],
        "ids": report.ids,
        "worker_command": worker_command(job, run.id),
    }
