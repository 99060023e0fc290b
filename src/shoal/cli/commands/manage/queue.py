"""`shoal migrate` and `shoal bench`: the schema and the speed of a queue."""

from typing import Annotated

import typer
import uvloop

from shoal.cli.console import counted, put_json, say
from shoal.cli.exits import Exit
from shoal.cli.open_queue import with_queue
from shoal.cli.options import common
from shoal.fleet.command_hints import command_on
from shoal.fleet.status.bench import measure
from shoal.queue.contract import Queue
from shoal.queue.open import read_schema
from shoal.queue.schema import must_migrate


def migrate(
    queue: common.Queue = common.DEFAULT_QUEUE,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 1 if there is something to migrate.")
    ] = False,
    as_json: common.Json = False,
) -> None:
    """Migrate the queue to this version's schema; safe to repeat and to run concurrently.

    Every command that opens a queue does the same. Workers of an older version go on, if its first number
    is the same.
    """
    if check:
        _check(queue, as_json)
        return
    found = with_queue(queue, lambda opened: opened.migrate())
    if as_json:
        put_json({"schema": found})
    else:
        say(f"The queue is at schema version {found}.")


def _check(queue: str, as_json: bool) -> None:
    schema = uvloop.run(read_schema(queue))
    lacks = must_migrate(schema.found, schema.newest)
    if as_json:
        put_json({"schema": schema.found, "newest": schema.newest, "migrates": lacks})
    elif lacks:
        found = f"is at schema version {schema.found}" if schema.found else "has no schema yet"
        say(f"The queue {found}; this Shoal's is version {schema.newest}.")
        say(f"To migrate it, run: {command_on(queue, 'migrate')}")
    else:
        say(f"The queue is at schema version {schema.found}, and there is nothing to migrate.")
    raise typer.Exit(Exit.FAILED if lacks else Exit.OK)


def bench(
    queue: common.Queue = common.DEFAULT_QUEUE,
    tasks: Annotated[int, typer.Option(min=1_000, help="Number of tasks to process.", metavar="N")] = 20_000,
    claimers: Annotated[
        int, typer.Option(min=1, max=64, help="Number of concurrent claim loops.", metavar="N")
    ] = 2,
    as_json: common.Json = False,
) -> None:
    """Benchmark a queue from this machine, in a separate run that is deleted afterwards.

    No pages are fetched. For a few seconds, the load also slows other runs on the same server.

    Example: shoal bench --queue postgresql://db/shoal
    """
    if not as_json:
        say(f"Processing {counted(tasks, 'task')} in batches of 100 with {counted(claimers, 'claim loop')} …")
    with_queue(queue, lambda opened: _measured(opened, tasks, claimers, as_json))


async def _measured(queue: "Queue", tasks: int, claimers: int, as_json: bool) -> None:
    async for found in measure(queue, tasks=tasks, loops=claimers):
        if as_json:
            put_json(found)
        else:
            digits = ",.0f" if found.figure >= 100 else ",.2f"
            typer.echo(f"{found.what:34}{format(found.figure, digits):>10} {found.unit}")
