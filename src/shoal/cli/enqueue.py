"""`shoal enqueue`: make a run and stream its tasks in; workers join it later."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli import options
from shoal.cli.asking import ask
from shoal.cli.console import complain, counted, put_json, say
from shoal.cli.crew import WATCHING, WORKERS, CrewOptions, takes_crew
from shoal.cli.exits import Exit
from shoal.cli.sources import takes_sources
from shoal.fleet.retyping import needs_secret

if TYPE_CHECKING:
    from shoal.fleet.launch import Job
    from shoal.fleet.seeds import Seeds
    from shoal.queue.contract import Queue


@takes_sources
@takes_crew(without=(*WORKERS, *WATCHING))
def enqueue(
    scraper: options.Scraper,
    seeds: "Seeds",
    *,
    rejects: options.Rejects = None,
    invalid: options.Invalid = "skip",
    dedup: options.Dedup = None,
    queue: options.Queue = options.DEFAULT_QUEUE,
    run_id: Annotated[
        str | None, typer.Option("--run", help="Add to this run, or make one of this id.", metavar="RUN")
    ] = None,
    crew: CrewOptions,
    as_json: options.Json = False,
) -> None:
    """Make a run, fill it with tasks, and say how to start workers on it.

    Example: shoal enqueue books.py --urls-file urls.txt --queue postgresql://db/shoal
    """
    if not seeds:
        complain(f"Nothing to enqueue. Run: shoal enqueue {scraper} --url https://…")
        raise typer.Exit(Exit.USAGE)
    changes = options.setting("dedup", dedup)
    job = crew.job(scraper, queue, urls=list(seeds.urls), changes=changes)
    report(ask(queue, lambda opened: fill(opened, job, seeds, rejects, run_id, invalid)), as_json)


def report(queued: dict[str, Any], as_json: bool) -> None:
    """Say what was queued, and how to start workers on it."""
    if as_json:
        put_json(queued)
        return
    if queued["run_id"] is None:
        say(f"Nothing new: {counted(queued['known'], 'task')} known from earlier runs. No run was made.")
        return
    known = f"{queued['known']:,} known from earlier runs, " if queued["known"] else ""
    say(
        f"Run {queued['run_id']}: {counted(queued['enqueued'], 'task')} queued, "
        f"{queued['duplicate']:,} were there already, {known}{queued['invalid']:,} invalid."
    )
    say(f"Start workers, here or elsewhere:  {queued['worker_command']}")
    if needs_secret(queued["worker_command"]):
        say("There, SHOAL_QUEUE must hold the queue's address with its password, which is not shown here.")


async def fill(
    queue: "Queue",
    job: "Job",
    seeds: "Seeds",
    rejects: str | None,
    run_id: str | None,
    invalid: str = "skip",
) -> dict[str, Any]:
    """Make the run and stream its tasks in."""
    from shoal.cli.seeds import Refused
    from shoal.core.errors import InvalidInput
    from shoal.fleet.filling import queued_row
    from shoal.fleet.launch import open_run
    from shoal.fleet.lifecycle import is_new, kept_if_accepted

    fresh = await is_new(queue, run_id)
    with Refused(rejects, invalid) as refused:
        async with refused.feed(queue, job, seeds) as feed:
            # A source that cannot be read makes no run, not even for a moment: workers may wait for one.
            await feed.begin(strict=invalid == "raise")
            run = await open_run(queue, job.scraper, run_id=run_id)
            async with kept_if_accepted(queue, run, is_new=fresh):
                report = await queue.enqueue(run.id, feed.into(run), on_invalid=feed.invalid)
                nothing = not (report.added or report.known)
                if fresh and refused.count and nothing and invalid != "dead":
                    why = f"Nothing could be queued ({refused.count:,} invalid), and no run was made."
                    raise InvalidInput(why)
    if report.added and (run := await queue.run(run.id)).state.has_ended:  # meanwhile
        say(f"Run {run.id} has ended: {run.reason}. Its tasks wait until: shoal resume {run.id}")
    queued = queued_row(job, run, report, refused.count)
    if report.known and await is_new(queue, run.id):
        return queued | {"status": "nothing new", "run_id": None, "worker_command": None}
    return queued
