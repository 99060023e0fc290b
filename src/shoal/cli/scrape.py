"""`shoal listen` and `shoal scrape`: pages on demand."""

import asyncio
import shlex
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli import options
from shoal.cli.asking import ask
from shoal.cli.console import counted, put_json, say
from shoal.cli.crew import CrewOptions, takes_crew
from shoal.cli.exits import Exit
from shoal.core.errors import CallFailed, QueueError
from shoal.core.tasks import restarted, watched
from shoal.fleet.retyping import typed_on

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from shoal.core.model import Task
    from shoal.fleet.dispatch import Scraped
    from shoal.fleet.launch import Job, Summary
    from shoal.queue.contract import Queue

MOST_PLACES = 8  # that are named


@takes_crew(without=("span", "steps", "partitions", "partition_table", "heartbeat"))
def listen(
    scraper: options.Scraper,
    *,
    at: Annotated[
        str,
        typer.Option(
            "--at",
            envvar="SHOAL_LISTEN",
            help="Where the first worker listens; the others at the ports behind it. Port 0 is any.",
            metavar="HOST:PORT",
        ),
    ] = "127.0.0.1:0",
    announce: Annotated[
        str | None,
        typer.Option(
            "--announce",
            help="Where callers reach a worker, if not there: https://here.example/{port}",
            metavar="URL",
        ),
    ] = None,
    queue: options.Queue = options.DEFAULT_QUEUE,
    crew: CrewOptions,
    as_json: options.Json = False,
) -> None:
    """Start workers that scrape on demand, until they are stopped; any number of these may run, anywhere.

    They share a secret with callers: SHOAL_SECRET, or one that the queue keeps for those who may read it.

    Example: shoal listen books.py --workers 4 --at 10.0.0.5:8400 --queue postgresql://db/shoal
    """
    from shoal.cli.job import nursery_for
    from shoal.fleet.ondemand import listening_job

    job = crew.job(scraper, queue, nursery=nursery_for(queue), changes=["mode=distributed"], has_data=as_json)
    listening = listening_job(job, at, announce)
    summary = ask(queue, lambda opened: _listen(opened, listening, as_json))
    if as_json:
        put_json(summary.as_json())
    else:
        say(_closing_words(summary, job))
    # A page that died is its caller's trouble, not that of the workers.
    raise typer.Exit(Exit.FAILED if summary.ending.failed else Exit.OK)


def scrape(
    scraper: options.Scraper,
    url: Annotated[
        str | None, typer.Argument(metavar="[URL]", help="The page to scrape now; none for a payload alone.")
    ] = None,
    payload: Annotated[
        str | None,
        typer.Option(
            "--payload", help='What the task carries, as JSON: \'{"user": "ann"}\'.', metavar="JSON"
        ),
    ] = None,
    step: Annotated[
        str | None, typer.Option("--step", help="The step that handles it, if not the first.", metavar="STEP")
    ] = None,
    queue: options.Queue = options.DEFAULT_QUEUE,
    strategy: Annotated[
        str, typer.Option(help="How a worker is chosen.", metavar="least_loaded|round_robin|random")
    ] = "least_loaded",
    timeout: Annotated[
        str, typer.Option(help="How long to wait for the answer: 30s, 2m.", metavar="TIME")
    ] = "30s",
    as_json: options.Json = False,
) -> None:
    """Scrape one page now, or handle a payload, with the workers that listen, and write the items as JSON.

    With --json it is one line, which says who did it, what was refused and which links the page has.

    Example: shoal scrape books.py https://books.example/1 --queue postgresql://db/shoal
    """
    from pathlib import Path

    from shoal.core.values import read_positive_duration
    from shoal.fleet.project import Project

    patience = read_positive_duration("--timeout", timeout)
    task = read_task(url, payload, step)
    name = Project.find(Path.cwd()).load(scraper).scraper.name
    scraped = ask(queue, lambda opened: _scrape(opened, name, task, strategy, patience))
    if as_json:
        put_json(scraped)
        return
    for item in scraped.items:
        put_json(item)
    if not scraped.items:
        named = [("", url), ("--step ", step), ("--payload ", payload)]
        words = " ".join(f"{option}{shlex.quote(value)}" for option, value in named if value)
        again = typed_on(queue, f"scrape {scraper} {words} --json")
        say(f"The task gave no items. All about the call: {again}")


def read_task(url: str | None, payload: str | None, step: str | None) -> "Task":
    """Return the task that was typed; raises InvalidSetting."""
    from dataclasses import replace

    import msgspec

    from shoal.core.errors import InvalidSetting
    from shoal.core.model import Task

    if url is None and payload is None:
        raise InvalidSetting("URL", "is missing; name a page, or give --payload '{…}' for a step without one")
    try:
        data = msgspec.json.decode(payload or "{}", type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise InvalidSetting("--payload", f"must be an object in JSON: {error}") from error
    task = Task(url=url, payload=data)
    return replace(task, step=step) if step else task


def _closing_words(summary: "Summary", job: "Job") -> str:
    results = typed_on(job.queue_url, f"export {summary.run.id} --to items.jsonl")
    lines = [f"Could not go on: {failure}" for failure in summary.ending.failures]
    done = counted(summary.snapshot.stats.completed - summary.before, "call")
    lines.append(f"Stopped after {done}.  Results:  {results}")
    return "\n".join(lines)


async def _listen(queue: "Queue", job: "Job", as_json: bool) -> "Summary":
    from shoal.cli.live import Show
    from shoal.cli.stopping import obey_signals
    from shoal.fleet.launch import launch
    from shoal.fleet.ondemand import outdated_words, standing_run

    run = await standing_run(queue, job.scraper)
    with Show(as_json=as_json, logs=job.logs) as show:
        if words := outdated_words(run, job.scraper):
            show.said(words)
        duty = restarted("Telling who listens", lambda: _tell_when_ready(queue, job, show.said), show.said)
        telling = watched(asyncio.create_task(duty))
        try:
            return await launch(queue, job, run, show, on_crew=lambda crew: obey_signals(crew, show.said))
        finally:
            telling.cancel()


async def _tell_when_ready(queue: "Queue", job: "Job", say: "Callable[[str], None]") -> None:
    from shoal.fleet.ondemand import until_listening

    with suppress(CallFailed, QueueError):
        places = sorted(
            worker.address for worker in await until_listening(queue, job.scraper.name, job.workers)
        )
        say(f"{counted(len(places), 'worker')} listening: {', '.join(places[:MOST_PLACES])}")
        say(f"Scrape a page:  {typed_on(job.queue_url, f'scrape {job.name} URL')}")


async def _scrape(
    queue: "Queue", scraper: str, task: "Task", strategy: str, timeout: "timedelta"
) -> "Scraped":
    from shoal.fleet.balance import Balancer

    async with Balancer(queue, scraper, strategy=strategy) as balancer:
        return await balancer.call(task, timeout=timeout)
