"""Adds tasks to an existing run, and reports what was queued: the same for commands, programs and the API."""

from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from shoal.core.errors import OutOfScope, PrivateAddress, UnknownRun
from shoal.core.model import Run
from shoal.core.tasks import first
from shoal.core.values import counted
from shoal.discover.routing import Routes
from shoal.fetch.egress import Egress
from shoal.fleet.command_hints import worker_command
from shoal.fleet.job import Job
from shoal.fleet.run.feed import InvalidSeeds, OnInvalid
from shoal.fleet.run.open_run import RunEnqueueReport, StartOptions, open_run
from shoal.fleet.sources.seeds import Seeds
from shoal.fleet.status.rows.row import as_json
from shoal.queue.contract import Queue
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.worker.fetchers.private_refusals import MAX_HOSTS
from shoal.worker.run_settings import note_private_hosts, private_hosts_to_allow


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


async def note_hosts_to_allow(queue: Queue, run: Run, settings: ScraperSettings) -> list[str]:
    """Return the private hosts of a run that its settings refuse, and record them for later commands.

    As far as their names tell, and among the first hosts: others are recorded when a worker refuses them.
    """
    egress, refused = Egress(settings.allow_private), list[str]()
    with suppress(UnknownRun):  # a new run that got no task is not kept
        async for host in first(queue.hosts(run.id), MAX_HOSTS):
            try:
                egress.admit_unresolved(f"http://{host.host}/")
            except PrivateAddress:
                refused.append(host.host)
            except OutOfScope:
                pass  # no URL of this host is fetched, whatever is allowed
        if refused:
            await note_private_hosts(queue, run.id, refused)
        return await private_hosts_to_allow(queue, run.id)
    return []


async def filled_row(queue: Queue, job: Job, run: Run, report: RunEnqueueReport) -> dict[str, Any]:
    """Return the fields that `shoal enqueue --json` promises of a run that was filled."""
    private = await note_hosts_to_allow(queue, run, job.scraper.settings)
    return {
        "status": "queued",
        "run_id": run.id,
        "enqueued": report.added,
        "duplicate": report.duplicate,
        "known": report.known,
        "invalid": report.invalid,
        "refused": [as_json(one) for one in report.refused],
        "ids": report.ids,
        "worker_command": worker_command(job, run.id, private=private),
    }
