"""`shoal work`: join a run until it is drained."""

from typing import Annotated

import typer

from shoal.cli.commands.crawl.run import exit_code, summary_text
from shoal.cli.console import put_json, say
from shoal.cli.open_queue import with_existing_queue
from shoal.cli.options import common
from shoal.cli.options.workers import WorkerOptions, fork_server_for, takes_worker_options
from shoal.cli.progress import ProgressView
from shoal.cli.signals import obey_signals
from shoal.fleet.job import Job
from shoal.fleet.run.launch import Summary, launch
from shoal.fleet.run.open_run import StartOptions, open_run
from shoal.fleet.sources.seeds import Seeds
from shoal.fleet.status.find import find_run
from shoal.queue.address import shown_queue
from shoal.queue.contract import Queue


@takes_worker_options()
def work(
    scraper: common.Scraper,
    run_id: Annotated[
        str,
        typer.Option(
            "--run", help="Run to work on: its id, the start of it, or newest.", metavar="RUN|newest"
        ),
    ],
    *,
    queue: common.Queue = common.DEFAULT_QUEUE,
    batch_size: Annotated[
        int, typer.Option("--batch-size", min=1, help="Number of tasks to claim at a time.", metavar="N")
    ] = 50,
    worker_options: WorkerOptions,
    as_json: common.Json = False,
) -> None:
    """Start workers on an existing run until it is drained, on any number of machines at once.

    Example: shoal work books.py --run newest --queue postgresql://db/shoal --workers 4
    """
    job = worker_options.job(
        scraper,
        queue,
        fork_server=fork_server_for(queue),
        batch=batch_size,
        joins=True,
        has_data=as_json,
        reports_warnings=as_json,
    )
    summary = with_existing_queue(queue, lambda opened: _work(opened, job, run_id, as_json))
    if as_json:
        put_json(summary.as_json() | {"queue": shown_queue(queue)})
    else:
        say(summary_text(summary, None))
    raise typer.Exit(exit_code(summary))


async def _work(queue: "Queue", job: "Job", run_id: str, as_json: bool) -> "Summary":
    found = await find_run(queue, run_id, scraper=job.scraper.name)
    options = StartOptions(run_id=found.id, resume=True, adds=True)
    with ProgressView(as_json=as_json, logs=job.logs, queue_url=job.queue_url) as show:
        async with open_run(queue, job, Seeds(), options) as opened:
            for notice in opened.notices:
                show.on_message(notice)
            return await launch(opened, show, on_pool=lambda pool: obey_signals(pool, show.on_message))
