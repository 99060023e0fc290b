"""The roles of `shoal start`, with terminal output."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from shoal.cli.commands.crawl.run import exit_code, summary_text
from shoal.cli.commands.inspect.status import line_of
from shoal.cli.console import counted, put_json, put_message, say
from shoal.cli.exits import Exit
from shoal.cli.open_queue import with_queue
from shoal.cli.options.workers import read_job
from shoal.cli.progress import LINE_INTERVAL_SECONDS, put_progress
from shoal.cli.signals import obey_signals, on_signals
from shoal.core.errors import InvalidSetting
from shoal.core.model import Run
from shoal.fleet.build_job import check_served
from shoal.fleet.cluster_roles import RoleObserver, WorkerHost, check_places, coordinate_scraper
from shoal.fleet.command_hints import command_on
from shoal.fleet.job import Job
from shoal.fleet.notify.notifier import Notifier
from shoal.fleet.project.file import Project, ProjectScraper
from shoal.fleet.run.launch import Summary
from shoal.fleet.run.pool import PoolExit
from shoal.fleet.status.progress import Snapshot
from shoal.queue.contract import Queue


class RolePrinter(RoleObserver):
    """Prints the progress of runs, one line at intervals."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._next_line = time.monotonic() + LINE_INTERVAL_SECONDS

    def on_join(self, run: Run) -> None:
        """Print which run was joined."""
        if not self.as_json:
            say(f"Run {run.id} of {run.scraper}")

    def on_progress(self, snapshot: Snapshot) -> None:
        """Print the progress of a run if the interval has passed."""
        if time.monotonic() < self._next_line:
            return
        self._next_line = time.monotonic() + LINE_INTERVAL_SECONDS
        if self.as_json:
            put_progress(snapshot)
        else:
            say(f"{snapshot.run.scraper}: {line_of(snapshot)}")

    def on_message(self, text: str) -> None:
        """Print a message."""
        if self.as_json:
            put_message(text)
        else:
            say(text)


def job_of(entry: ProjectScraper, queue: str, **more: Any) -> Job:
    """Return the job of a scraper in a cluster, where machines share a run unless it is in single mode."""
    job = read_job(entry.name, queue=queue, joins=True, **more)
    # One machine may serve several scrapers at once, each with its own log folder.
    return replace(job, logs=job.logs and job.logs.within(entry.name))


def coordinate(
    project: Project,
    entries: Sequence[ProjectScraper],
    queue: str,
    run_ids: Sequence[str],
    more: dict[str, Any],
    *,
    as_json: bool,
) -> Exit:
    """Coordinate a run of each scraper and print the summaries."""
    if run_ids and (len(run_ids) > 1 or len(entries) > 1):
        raise InvalidSetting(
            "--run", "takes one run of one scraper here; name the scraper: shoal start NAME --run RUN …"
        )
    check_places(project, entries)
    run_id = run_ids[0] if run_ids else None
    jobs = [job_of(entry, queue, **more) for entry in entries]
    pairs = list(zip(entries, jobs, strict=True))
    teller = RolePrinter(as_json=as_json)

    async def work(opened: Queue) -> list[tuple[Summary, str | None]] | None:
        async with Notifier(opened, project, teller.on_message) as notifier:
            return await _coordinate(opened, project, pairs, run_id, teller, notifier)

    ended = with_queue(queue, work)
    if ended is None:
        (put_message if as_json else say)(
            "Stopped waiting; workers continue with the queued tasks. Resume:  "
            + command_on(queue, "start --role coordinator")
        )
        return Exit.PARTIAL
    for summary, out in ended:
        put_json(summary.as_json()) if as_json else say(summary_text(summary, out))
    return max(_coordinator_exit_code(summary) for summary, _ in ended)


def _coordinator_exit_code(summary: Summary) -> Exit:
    """Return the exit code for a scheduler: reaching max_pages is a planned end, not a failure."""
    code = exit_code(summary)
    return Exit.OK if code is Exit.LIMIT_REACHED else code


async def _coordinate(
    queue: Queue,
    project: Project,
    pairs: Sequence[tuple[ProjectScraper, Job]],
    run_id: str | None,
    teller: RolePrinter,
    notifier: Notifier,
) -> list[tuple[Summary, str | None]] | None:
    """Return the summaries of the runs, None if a signal stopped them."""

    async def run_once(entry: ProjectScraper, job: Job) -> tuple[Summary, str | None]:
        summary, out = await coordinate_scraper(queue, project, entry, job, run_id, teller)
        if verdict := summary.snapshot.verdict:
            await notifier.run_ended(summary.run.id, verdict, scraper=summary.run.scraper)
        return summary, out

    working = asyncio.gather(*(run_once(entry, job) for entry, job in pairs))
    on_signals(lambda advice: working.cancel())
    with suppress(asyncio.CancelledError):
        return await working
    return None


def work(
    entries: Sequence[ProjectScraper],
    queue: str,
    run_ids: Sequence[str],
    more: dict[str, Any],
    count: int | None,
    as_json: bool,
) -> Exit:
    """Serve runs until stopped and print what was done; `count` is the most workers on all machines."""
    jobs = [job_of(entry, queue, **more) for entry in entries]
    check_served(jobs[0].steps if jobs else None, *(job.scraper for job in jobs))
    exits = with_queue(queue, lambda opened: _serve(opened, jobs, run_ids, count, as_json))
    print_pool_exits(exits, is_json=as_json)
    return Exit.FAILED if any(pool_exit.failed for pool_exit in exits.values()) else Exit.OK


async def _serve(
    queue: Queue, jobs: Sequence[Job], run_ids: Sequence[str], count: int | None, as_json: bool
) -> dict[str, PoolExit]:
    teller = RolePrinter(as_json=as_json)
    station = WorkerHost(queue, jobs, teller, runs=run_ids, count=count)
    obey_signals(station, teller.on_message)
    served = ", ".join(job.scraper.name for job in jobs)
    only = f", for tasks of {' and '.join(jobs[0].steps)} only" if jobs[0].steps else ""
    limit = f", at most {count:,} on all machines" if count else ""
    workers = f"{counted(jobs[0].workers, 'worker')} each{limit}"
    teller.on_message(f"Waiting for runs of {served}, with {workers}{only}.")
    return await station.serve()


def print_pool_exits(exits: dict[str, PoolExit], *, is_json: bool) -> None:
    """Print what this machine did for each run."""
    for run_id, pool_exit in exits.items():
        tally = pool_exit.tally
        if is_json:
            put_json(
                {
                    "run_id": run_id,
                    "pages": tally.pages,
                    "items": tally.items,
                    "retried": tally.retried,
                    "buried": tally.buried,
                    "failures": pool_exit.failures,
                }
            )
        else:
            done = f"{counted(tally.pages, 'page')} and {counted(tally.items, 'item')}"
            say(f"Run {run_id}: {done} on this machine.")
