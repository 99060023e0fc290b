"""`shoal work`: join a run until it is drained."""

from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import options
from shoal.cli.asking import ask_existing
from shoal.cli.console import put_json, say
from shoal.cli.crew import CrewOptions, takes_crew
from shoal.cli.retyped import remembers

if TYPE_CHECKING:
    from shoal.fleet.launch import Job, Summary
    from shoal.queue.contract import Queue


@remembers()
@takes_crew()
def work(
    scraper: options.Scraper,
    run_id: Annotated[str, typer.Option("--run", help="The run to work on.", metavar="RUN")],
    *,
    queue: options.Queue = options.DEFAULT_QUEUE,
    batch_size: Annotated[
        int, typer.Option("--batch-size", min=1, help="How many tasks to claim at a time.", metavar="N")
    ] = 50,
    crew: CrewOptions,
    as_json: options.Json = False,
) -> None:
    """Work on a run until it is drained; any number of these may run at once, anywhere.

    Example: shoal work books.py --run 20260215_120000_ab12 --queue postgresql://db/shoal --workers 4
    """
    from shoal.cli.job import nursery_for
    from shoal.cli.run import closing_words, exit_code

    job = crew.job(scraper, queue, nursery=nursery_for(queue), batch=batch_size, joins=True, has_data=as_json)
    summary = ask_existing(queue, lambda opened: _work(opened, job, run_id, as_json))
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
    with Show(as_json=as_json, logs=job.logs) as show:
        return await launch(queue, job, run, show, on_crew=lambda crew: obey_signals(crew, show.said))
