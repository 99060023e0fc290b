"""`shoal bench`: how fast your queue is from here."""

from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import options
from shoal.cli.asking import ask
from shoal.cli.console import put_json, say

if TYPE_CHECKING:
    from shoal.queue.contract import Queue


def bench(
    queue: options.Queue = options.DEFAULT_QUEUE,
    tasks: Annotated[
        int, typer.Option(min=1_000, help="How many tasks to put through it.", metavar="N")
    ] = 20_000,
    claimers: Annotated[
        int, typer.Option(min=1, max=64, help="How many claim loops to run at once.", metavar="N")
    ] = 2,
    as_json: options.Json = False,
) -> None:
    """Measure a queue from this machine, in a run of its own that is purged afterwards.

    Nothing is fetched. Other runs in the queue share its server with the measurement for some seconds.

    Example: shoal bench --queue postgresql://db/shoal
    """
    if not as_json:
        say(f"Putting {tasks:,} tasks through the queue, batches of 100, {claimers} claim loops …")
    ask(queue, lambda opened: _measured(opened, tasks, claimers, as_json))


async def _measured(queue: "Queue", tasks: int, claimers: int, as_json: bool) -> None:
    from shoal.fleet.bench import measure

    async for found in measure(queue, tasks=tasks, loops=claimers):
        if as_json:
            put_json(found.as_json())
        else:
            digits = ",.0f" if found.figure >= 100 else ",.2f"
            typer.echo(f"{found.what:34}{format(found.figure, digits):>10} {found.unit}")
