"""`shoal rejects`: items that failed validation or a filter, with the reasons."""

from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.commands.inspect.status import newest_run
from shoal.cli.console import put_rows, say
from shoal.cli.options import common
from shoal.cli.session import first, with_existing_queue

if TYPE_CHECKING:
    from shoal.core.model import StoredReject
    from shoal.queue.contract import Queue


def rejects(
    run_id: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Run id; the newest run by default.")
    ] = None,
    step: Annotated[str | None, typer.Option("--step", help="Only this step.", metavar="STEP")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of rows.", metavar="N")] = 50,
    after: Annotated[
        int, typer.Option("--after", min=0, help="Continue after the reject with this id.", metavar="ID")
    ] = 0,
    queue: common.Queue = common.DEFAULT_QUEUE,
    as_json: common.Json = False,
) -> None:
    """List the items of a run that failed validation or a filter, with the reasons.

    Example: shoal rejects 20260215_120000_ab12 --step book --json
    """
    from shoal.fleet.status.rows import reject_row

    found = with_existing_queue(queue, lambda opened: _rejects(opened, run_id, step, limit + 1, after))
    rows = [reject_row(one) for one in found[:limit]]
    columns = ("id", "step", "url", "reason", "data")
    put_rows(rows, columns, as_json=as_json, nothing="No rejected items.")
    if len(found) > limit:
        say(f"There are more; continue with: --after {found[limit - 1].id}")


async def _rejects(
    queue: "Queue", run_id: str | None, step: str | None, limit: int, after: int
) -> "list[StoredReject]":
    run = run_id or await newest_run(queue)
    return [one async for one in first(queue.rejects(run, step=step, after=after), limit)]
