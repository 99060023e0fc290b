"""`shoal listen` and `shoal scrape`: scraping on demand."""

import asyncio
import shlex
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Annotated, Any

import msgspec
import typer
from msgspec.structs import replace

from shoal.cli.configuration import current_project
from shoal.cli.console import counted, put_json, say
from shoal.cli.exits import Exit
from shoal.cli.open_queue import with_queue
from shoal.cli.options import common
from shoal.cli.options.workers import WorkerOptions, fork_server_for, takes_worker_options
from shoal.cli.progress import ProgressView
from shoal.cli.signals import obey_signals
from shoal.core.errors import CallFailed, InvalidSetting, QueueError
from shoal.core.model import Task
from shoal.core.tasks import restarted, watched
from shoal.core.values import read_positive_duration
from shoal.fleet.build_job import check_served
from shoal.fleet.command_hints import command_on, export_command
from shoal.fleet.job import Job
from shoal.fleet.ondemand.balancer import Balancer
from shoal.fleet.ondemand.dispatch import Scraped
from shoal.fleet.ondemand.standing_run import (
    bound_standing_run,
    listening_job,
    outdated_notice,
    until_listening,
)
from shoal.fleet.project.scrapers import load
from shoal.fleet.run.launch import Summary, launch
from shoal.fleet.run.open_run import OpenedRun
from shoal.queue.contract import Queue

MAX_ADDRESSES_SHOWN = 8


@takes_worker_options(without=("span", "steps", "partitions", "partition_table", "heartbeat"))
def listen(
    scraper: common.Scraper,
    *,
    at: Annotated[
        str,
        typer.Option(
            "--at",
            envvar="SHOAL_LISTEN",
            help="Address of the first worker; the others use the next ports. Port 0 picks free ports.",
            metavar="HOST:PORT",
        ),
    ] = "127.0.0.1:0",
    announce: Annotated[
        str | None,
        typer.Option(
            "--announce",
            help="Public URL of a worker, if it differs from --at: https://here.example/{port}",
            metavar="URL",
        ),
    ] = None,
    args: common.Args = None,
    queue: common.Queue = common.DEFAULT_QUEUE,
    worker_options: WorkerOptions,
    as_json: common.Json = False,
) -> None:
    """Start workers that scrape pages on demand until you stop them, on any number of machines.

    Workers and callers share a secret: SHOAL_SECRET, or else one that is generated and stored in the queue.

    Example: shoal listen books.py --workers 4 --at 10.0.0.5:8400 --queue postgresql://db/shoal
    """
    job = worker_options.job(
        scraper,
        queue,
        fork_server=fork_server_for(queue),
        args=args,
        changes=["mode=distributed"],
        has_data=as_json,
        reports_warnings=as_json,
    )
    listening = listening_job(job, at, announce)
    summary = with_queue(queue, lambda opened: _listen(opened, listening, as_json))
    if as_json:
        put_json(summary.as_json())
    else:
        say(_summary_text(summary, job))
    # A page that failed is reported to its caller; the workers did not fail.
    raise typer.Exit(Exit.FAILED if summary.ending.failed else Exit.OK)


def scrape(
    scraper: common.Scraper,
    url: Annotated[
        str | None,
        typer.Argument(metavar="[URL]", help="Page to scrape; leave it out to send a --payload only."),
    ] = None,
    payload: Annotated[
        str | None,
        typer.Option("--payload", help='Payload of the task, as JSON: \'{"user": "ann"}\'.', metavar="JSON"),
    ] = None,
    step: Annotated[
        str | None,
        typer.Option("--step", help="Step that handles the task, if not the first.", metavar="STEP"),
    ] = None,
    queue: common.Queue = common.DEFAULT_QUEUE,
    strategy: Annotated[
        str, typer.Option(help="How to choose a worker.", metavar="least_loaded|round_robin|random")
    ] = "least_loaded",
    timeout: Annotated[
        str, typer.Option(help="Time to wait for the result: 30s, 2m.", metavar="TIME")
    ] = "30s",
    as_json: common.Json = False,
) -> None:
    """Scrape one page, or process one payload, on the listening workers and print the items as JSON.

    With --json, print one line that also has the worker, the rejected items and the links of the page.

    Example: shoal scrape books.py https://books.example/1 --queue postgresql://db/shoal
    """
    patience = read_positive_duration("--timeout", timeout)
    task = read_task(url, payload, step)
    loaded = load(current_project(), scraper).scraper
    check_served([step] if step else [], loaded)
    scraped = with_queue(queue, lambda opened: _scrape(opened, loaded.name, task, strategy, patience))
    if as_json:
        put_json(scraped)
        return
    for item in scraped.items:
        put_json(item)
    if not scraped.items:
        named = [("", url), ("--step ", step), ("--payload ", payload)]
        words = " ".join(f"{option}{shlex.quote(value)}" for option, value in named if value)
        again = command_on(queue, f"scrape {shlex.quote(scraper)} {words} --json")
        say(f"The task returned no items. Details: {again}")


def read_task(url: str | None, payload: str | None, step: str | None) -> "Task":
    """Return the task that was typed; raises InvalidSetting."""
    if url is None and payload is None:
        raise InvalidSetting(
            "URL", "is missing; pass a URL, or --payload '{…}' for a step that needs no page"
        )
    try:
        data = msgspec.json.decode(payload or "{}", type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise InvalidSetting("--payload", f"must be a JSON object: {error}") from error
    task = Task(url=url, payload=data)
    return replace(task, step=step) if step else task


def _summary_text(summary: "Summary", job: "Job") -> str:
    results = export_command(job.queue_url, summary.run.id)
    lines = [f"Failed: {failure}" for failure in summary.ending.failures]
    done = counted(summary.snapshot.stats.completed - summary.before, "call")
    lines.append(f"Stopped after {done}.  Results:  {results}")
    return "\n".join(lines)


async def _listen(queue: "Queue", job: "Job", as_json: bool) -> "Summary":
    run = await bound_standing_run(queue, job)
    with ProgressView(as_json=as_json, logs=job.logs) as show:
        if words := outdated_notice(run, job.scraper):
            show.on_message(words)
        work = restarted(
            "Announcing the workers",
            lambda: _announce_when_ready(queue, job, show.on_message),
            show.on_message,
        )
        announcing = watched(asyncio.create_task(work))
        try:
            opened = OpenedRun(queue, run, job)
            return await launch(opened, show, on_pool=lambda pool: obey_signals(pool, show.on_message))
        finally:
            announcing.cancel()


async def _announce_when_ready(queue: "Queue", job: "Job", say: "Callable[[str], None]") -> None:
    with suppress(CallFailed, QueueError):
        addresses = sorted(
            worker.address for worker in await until_listening(queue, job.scraper.name, job.workers)
        )
        say(f"{counted(len(addresses), 'worker')} listening: {', '.join(addresses[:MAX_ADDRESSES_SHOWN])}")
        say(f"Scrape a page:  {command_on(job.queue_url, f'scrape {shlex.quote(job.name)} URL')}")


async def _scrape(
    queue: "Queue", scraper: str, task: "Task", strategy: str, timeout: "timedelta"
) -> "Scraped":
    async with Balancer(queue, scraper, strategy=strategy) as balancer:
        return await balancer.call(task, timeout=timeout)
