"""`shoal enqueue`: create a run and stream its tasks in; workers join it later."""

from shlex import quote
from typing import Annotated, Any

import typer

from shoal.cli.console import counted, put_json, put_message, say
from shoal.cli.enqueue_seeds import RefusedSeeds
from shoal.cli.open_queue import with_queue
from shoal.cli.options import common
from shoal.cli.options.sources import choose_seeds, takes_sources
from shoal.cli.options.workers import TELEMETRY, WORKERS, WorkerOptions, takes_worker_options
from shoal.core.errors import InvalidInput
from shoal.fleet.command_hints import command_on, command_to_resume, needs_secret
from shoal.fleet.job import Job
from shoal.fleet.run.args import bind_args
from shoal.fleet.run.enqueue import note_hosts_to_allow, queued_row
from shoal.fleet.run.lifecycle import discarded_if_refused, is_new
from shoal.fleet.run.settings import open_job
from shoal.fleet.sources.seeds import Seeds
from shoal.fleet.status.at_work import has_workers
from shoal.fleet.status.find import NEWEST, find_run
from shoal.queue.contract import Queue
from shoal.scrape.settings.declaration import FETCHING, SEEDS


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

    async def filled(opened: "Queue") -> tuple[dict[str, Any], bool]:
        queued = await fill(opened, job, seeds, rejects, run_id, invalid, as_json=as_json)
        run = queued["run_id"]
        return queued, run is not None and await has_workers(opened, run)

    queued, at_work = with_queue(queue, filled)
    report(queued, as_json, at_work=at_work)


def report(queued: dict[str, Any], as_json: bool, *, at_work: bool = False) -> None:
    """Print what was queued, and how to start workers on it if there are none."""
    if as_json:
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
    if needs_secret(queued["worker_command"]):
        say("On that machine, set SHOAL_QUEUE to the queue's URL with its password; it is not shown here.")


async def fill(
    queue: "Queue",
    job: "Job",
    seeds: "Seeds",
    rejects: str | None,
    run_id: str | None,
    invalid: str = "skip",
    *,
    as_json: bool = False,
) -> dict[str, Any]:
    """Create the run and stream its tasks in."""

    tell = put_message if as_json else say
    if run_id == NEWEST:
        run_id = (await find_run(queue, scraper=job.scraper.name)).id
    job = await bind_args(queue, job, run_id)  # the declared seeds may read them
    with RefusedSeeds(rejects, invalid, as_json=as_json) as refused:
        async with refused.feed(queue, job, seeds) as feed:
            # An unreadable source creates no run, not even for a moment: workers may be waiting for one.
            await feed.begin(strict=invalid == "raise")
            opened = await open_job(queue, job, run_id=run_id)
            job, run, fresh = opened.job, opened.run, opened.is_new
            if opened.notice:
                tell(opened.notice)
            async with discarded_if_refused(queue, run, is_new=fresh):
                report = await queue.enqueue(run.id, feed.into(run), on_invalid=feed.invalid)
                nothing = not (report.added or report.known)
                if fresh and refused.count and nothing and invalid != "dead":
                    why = f"Nothing could be queued ({refused.count:,} invalid), so no run was created."
                    raise InvalidInput(why)
    if report.added and (run := await queue.run(run.id)).state.has_ended:  # meanwhile
        again = await command_to_resume(queue, job.queue_url, run)
        tell(f"Run {run.id} has ended: {run.reason}. To work on its tasks, run: {again}")
    private = await note_hosts_to_allow(queue, run, job.scraper.settings)
    queued = queued_row(
        job, run, report, refused.count, refused=refused.first, ids=feed.ids(run), private=private
    )
    if report.known and await is_new(queue, run.id):
        return queued | {"status": "nothing new", "run_id": None, "worker_command": None}
    return queued
