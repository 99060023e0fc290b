"""`shoal rejects`: items that failed validation or a filter, with the reasons."""

from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import options
from shoal.cli.asking import ask_existing, first
from shoal.cli.console import put_rows, say
from shoal.cli.look import newest_run

if TYPE_CHECKING:
    from shoal.core.model import StoredReject
    from shoal.queue.contract import Queue


def rejects(
    run_id: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="The run's id; the newest one if left out.")
    ] = None,
    step: Annotated[str | None, typer.Option("--step", help="Of this step only.", metavar="STEP")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Show this many.", metavar="N")] = 50,
    after: Annotated[
        int, typer.Option("--after", min=0, help="Go on behind the reject of this id.", metavar="ID")
    ] = 0,
    queue: options.Queue = options.DEFAULT_QUEUE,
    as_json: options.Json = False,
) -> None:
    """List the items of a run that failed validation or a filter, and why.

    Example: shoal rejects 20260215_120000_ab12 --step book --json
    """
    from shoal.fleet.rows import reject_row

    found = ask_existing(queue, lambda opened: _rejects(opened, run_id, step, limit + 1, after))
    rows = [reject_row(one) for one in found[:limit]]
    columns = ("id", "step", "url", "reason", "data")
    put_rows(rows, columns, as_json=as_json, nothing="No item was rejected.")
    if len(found) > limit:
        say(f"There are more; go on with: --after {found[limit - 1].id}")


async def _rejects(
    queue: "Queue", run_id: str | None, step: str | None, limit: int, after: int
) -> "list[StoredReject]":
    run = run_id or await newest_run(queue)
    return [one async for one in first(queue.rejects(run, step=step, after=after), limit)]
