"""`shoal enqueue`: create a run and stream its tasks in; workers join it later."""

from shlex import quote
from typing import Annotated, Any

import typer
from msgspec.structs import replace

from shoal.cli.console import counted, put_json, put_message, say
from shoal.cli.open_queue import with_queue
from shoal.cli.options import common
from shoal.cli.options.sources import choose_seeds, start_options, takes_sources
from shoal.cli.options.workers import TELEMETRY, WORKERS, WorkerOptions, takes_worker_options
from shoal.core.errors import InvalidInput
from shoal.fleet.command_hints import command_on, command_to_resume, needs_secret
from shoal.fleet.job import Job
from shoal.fleet.run.enqueue import filled_row
from shoal.fleet.run.lifecycle import is_new
from shoal.fleet.run.open_run import StartOptions, open_run
from shoal.fleet.sources.seeds import Seeds
from shoal.fleet.status.at_work import has_workers
from shoal.fleet.status.find import NEWEST, find_run
from shoal.queue.contract import Queue
from shoal.scrape.settings.declaration import FETCHING, SEEDS

SECRET_HINT = (
    "On a machine whose shoal.toml does not name the queue, set SHOAL_QUEUE to its URL with the password; "
    "it is not shown here."
)


@takes_sources
@takes_worker_options(sections=(FETCHING, SEEDS), without=(*WORKERS, *TELEMETRY))
def enqueue(
    scraper: common.Scraper,
    seeds: "Seeds",
    *,
    args: common.Args = None,
    rejects: common.Rejects = None,
    invalid: common.Invalid = "skip",
    queue: common.Queue = common.DEFAULT_QUEUE,
    run_id: Annotated[
        str | None,
        typer.Option(
            "--run",
            help="Add to this run, or create it with this id; newest is the scraper's newest run.",
            metavar="RUN|newest",
        ),
    ] = None,
    worker_options: WorkerOptions,
    as_json: common.Json = False,
) -> None:
    """Create a run, fill it with tasks, and print the command that starts workers on it.

    Example: shoal enqueue books.py --urls-file urls.txt --queue postgresql://db/shoal
    """
    job = worker_options.job(scraper, queue, urls=seeds.addresses, args=args)
    seeds = choose_seeds(seeds, job, as_json=as_json)
    if not seeds:
        raise InvalidInput(
            f"Nothing to enqueue. Run: {command_on(queue, f'enqueue {quote(scraper)} --url https://…')}"
        )

    start = start_options(rejects, invalid, run_id=run_id, as_json=as_json)

    async def filled(opened: Queue) -> tuple[dict[str, Any], bool]:
        named = (await find_run(opened, scraper=job.scraper.name)).id if run_id == NEWEST else run_id
        options = replace(start, run_id=named, adds=True)
        queued = await fill(opened, job, seeds, options, as_json=as_json)
        run = queued["run_id"]
        return queued, run is not None and await has_workers(opened, run)

    queued, at_work = with_queue(queue, filled)
    report(queued, as_json, at_work=at_work)


def report(queued: dict[str, Any], as_json: bool, *, at_work: bool = False) -> None:
    """Print what was queued, and how to start workers on it if there are none."""
    needs = queued["worker_command"] is not None and needs_secret(queued["worker_command"])
    if as_json:
        if needs:
            put_message(SECRET_HINT)
        put_json(queued)
        return
    if queued["run_id"] is None:
        say(f"Nothing new: {counted(queued['known'], 'task')} queued by earlier runs. No run was created.")
        return
    known = f"{queued['known']:,} queued by earlier runs, " if queued["known"] else ""
    say(
        f"Run {queued['run_id']}: {counted(queued['enqueued'], 'task')} queued, "
        f"{counted(queued['duplicate'], 'duplicate')}, {known}{queued['invalid']:,} invalid."
    )
    if at_work:
        say(f"Workers are at work on it. To start more:  {queued['worker_command']}")
    else:
        say(f"Start workers, on this or any machine:  {queued['worker_command']}")
    if needs:
        say(SECRET_HINT)


async def fill(
    queue: Queue, job: Job, seeds: Seeds, options: StartOptions, *, as_json: bool = False
) -> dict[str, Any]:
    """Create the run, or add to an existing one, and stream its tasks in."""
    tell = put_message if as_json else say
    async with open_run(queue, job, seeds, options) as opened:
        job, run = opened.job, opened.run
        for notice in opened.notices:
            tell(notice)
        report = await opened.enqueue()
    if report.added and (run := await queue.run(run.id)).state.has_ended:  # meanwhile
        again = await command_to_resume(queue, job.queue_url, run)
        tell(f"Run {run.id} has ended: {run.reason}. To work on its tasks, run: {again}")
    queued = filled_row(job, run, report)
    if report.known and await is_new(queue, run.id):
        return queued | {"status": "nothing new", "run_id": None, "worker_command": None}
    return queued
