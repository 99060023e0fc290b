"""`shoal work`: join a run until it is drained."""

from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import options
from shoal.cli.asking import ask
from shoal.cli.console import put_json, say

if TYPE_CHECKING:
    from shoal.fleet.launch import Job, Summary
    from shoal.queue.contract import Queue


def work(
    scraper: options.Scraper,
    run_id: Annotated[str, typer.Option("--run", help="The run to work on.", metavar="RUN")],
    queue: options.Queue = options.DEFAULT_QUEUE,
    workers: options.Workers = None,
    batch_size: Annotated[
        int, typer.Option("--batch-size", min=1, help="How many tasks to claim at a time.")
    ] = 50,
    at_once: options.AtOnce = 64,
    memory: options.Memory = options.DEFAULT_MEMORY,
    steps: options.Steps = None,
    partitions: options.Partitions = None,
    partition_table: options.PartitionTable = None,
    heartbeat: options.Heartbeat = options.DEFAULT_HEARTBEAT,
    proxies: options.Proxies = None,
    tor: options.Tor = None,
    fetch: options.Fetch = None,
    tokens: options.Tokens = None,
    allow_private: options.AllowPrivate = None,
    changes: options.Settings = None,
    log_dir: options.LogDir = None,
    log_format: options.LogFormat = "human",
    log_level: options.LogLevel = "info",
    metrics: options.Metrics = None,
    trace: options.Trace = False,
    as_json: options.Json = False,
) -> None:
    """Work on a run until it is drained; any number of these may run at once, anywhere.

    Example: shoal work books.py --run 20260215_120000_ab12 --queue postgresql://db/shoal --workers 4
    """
    from shoal.cli.job import nursery_for, read_job
    from shoal.cli.run import closing_words, exit_code
    from shoal.cli.watching import read_watching

    job = read_job(
        scraper,
        nursery=nursery_for(queue),
        queue=queue,
        # Many may work on a distributed run; the lock is for those who start one.
        changes=[
            *(changes or []),
            *options.setting("proxies", proxies),
            *options.setting("tor", tor),
            *options.setting("fetch", fetch),
            *options.setting("tokens", tokens),
            "mode=distributed",
        ],
        allow_private=allow_private,
        workers=workers or 1,
        at_once=at_once,
        memory=memory,
        batch=batch_size,
        steps=options.words(steps),
        partitions=options.words(partitions),
        **read_watching(log_dir, log_format, log_level, metrics, trace),
        partition_table=partition_table,
        heartbeat=heartbeat,
    )
    summary = ask(queue, lambda opened: _work(opened, job, run_id, as_json))
    if as_json:
        put_json(summary.as_json())
    else:
        say(closing_words(summary, None, job))
    raise typer.Exit(exit_code(summary))


async def _work(queue: "Queue", job: "Job", run_id: str, as_json: bool) -> "Summary":
    from shoal.cli.live import Show
    from shoal.cli.stopping import obey_signals
    from shoal.fleet.launch import launch, open_run

    run = await open_run(queue, job.scraper, run_id=run_id, resume=True)
    with Show(as_json=as_json) as show:
        return await launch(queue, job, run, show, on_crew=lambda crew: obey_signals(crew, show.said))
