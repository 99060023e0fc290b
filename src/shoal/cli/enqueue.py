"""`shoal enqueue`: make a run and stream its tasks in; workers join it later."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli import options
from shoal.cli.asking import ask
from shoal.cli.console import complain, counted, put_json, say
from shoal.cli.exits import Exit
from shoal.cli.sources import takes_sources

if TYPE_CHECKING:
    from shoal.fleet.launch import Job
    from shoal.fleet.seeds import Seeds
    from shoal.queue.contract import Queue


@takes_sources
def enqueue(
    scraper: options.Scraper,
    seeds: "Seeds",
    rejects: options.Rejects = None,
    queue: options.Queue = options.DEFAULT_QUEUE,
    run_id: Annotated[
        str | None, typer.Option("--run", help="Add to this run, or make one of this id.", metavar="RUN")
    ] = None,
    proxies: options.Proxies = None,
    tor: options.Tor = None,
    fetch: options.Fetch = None,
    tokens: options.Tokens = None,
    allow_private: options.AllowPrivate = None,
    changes: options.Settings = None,
    as_json: options.Json = False,
) -> None:
    """Make a run, fill it with tasks, and say how to start workers on it.

    Example: shoal enqueue books.py --urls-file urls.txt --queue postgresql://db/shoal
    """
    from shoal.cli.job import read_job

    if not seeds:
        complain(f"Nothing to enqueue. Run: shoal enqueue {scraper} --url https://…")
        raise typer.Exit(Exit.USAGE)
    job = read_job(
        scraper,
        queue=queue,
        changes=[
            *(changes or []),
            *options.setting("proxies", proxies),
            *options.setting("tor", tor),
            *options.setting("fetch", fetch),
            *options.setting("tokens", tokens),
        ],
        urls=list(seeds.urls),
        allow_private=allow_private,
    )
    report(ask(queue, lambda opened: fill(opened, job, seeds, rejects, run_id)), as_json)


def report(queued: dict[str, Any], as_json: bool) -> None:
    """Say what was queued, and how to start workers on it."""
    if as_json:
        put_json(queued)
        return
    say(
        f"Run {queued['run_id']}: {counted(queued['enqueued'], 'task')} queued, "
        f"{queued['duplicate']:,} were there already, {queued['invalid']:,} invalid."
    )
    say(f"Start workers, here or elsewhere:  {queued['worker_command']}")


async def fill(
    queue: "Queue", job: "Job", seeds: "Seeds", rejects: str | None, run_id: str | None
) -> dict[str, Any]:
    """Make the run and stream its tasks in."""
    from shoal.cli.seeds import Refused
    from shoal.fleet.launch import open_run

    run = await open_run(queue, job.scraper, run_id=run_id)
    with Refused(rejects) as refused:
        async with refused.feed(queue, job, seeds) as feed:
            report = await queue.enqueue(run.id, feed, on_invalid=feed.invalid)
    return {
        "status": "queued",
        "run_id": run.id,
        "enqueued": report.added,
        "duplicate": report.duplicate,
        "invalid": refused.count,
        "worker_command": worker_command(job, run.id),
    }


def worker_command(job: "Job", run_id: str) -> str:
    """Return the command that starts a worker on the run, on any machine that has the secrets."""
    from shoal.cli.job import typed_again

    return typed_again(job, "shoal", "work", job.name, "--run", run_id, elsewhere=True)
