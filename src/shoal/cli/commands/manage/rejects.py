"""`shoal rejects`: items that failed validation or a filter, with the reasons."""

from collections.abc import AsyncIterator
from typing import Annotated

import typer

from shoal.cli.console import put_rows
from shoal.cli.open_queue import DEFAULT_LIMIT, say_more, with_run
from shoal.cli.options import common
from shoal.core.model import StoredReject
from shoal.core.tasks import first
from shoal.core.values import no_match
from shoal.fleet.status.rows import RejectRow
from shoal.queue.contract import QueueReports


def rejects(
    run_id: common.MaybeRunId = None,
    step: Annotated[str | None, typer.Option("--step", help="Only this step.", metavar="STEP")] = None,
    reason: Annotated[
        str | None,
        typer.Option(
            "--reason", help="Only reasons that contain this text, such as a field's name.", metavar="TEXT"
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of rows.", metavar="N")] = DEFAULT_LIMIT,
    after: Annotated[
        int, typer.Option("--after", min=0, help="Continue after the reject with this id.", metavar="ID")
    ] = 0,
    queue: common.Queue = common.DEFAULT_QUEUE,
    wide: common.Wide = False,
    as_json: common.Json = False,
) -> None:
    """List the items of a run that failed validation or a filter, with the reasons.

    Example: shoal rejects newest --step book --reason price
    """

    run_id, (found, total) = with_run(
        queue, run_id, lambda opened, run: _rejects(opened, run, step, reason, limit + 1, after)
    )
    rows = [RejectRow.of(one) for one in found[:limit]]
    used = {"--step": step, "--reason": reason, "--after": after}
    nothing = no_match("rejected item", total, used)
    put_rows(rows, RejectRow.columns, as_json=as_json, nothing=nothing, wide=wide)
    given = {"--step": step, "--reason": reason, "--wide": wide, "--json": as_json}
    say_more(queue, ("rejects", run_id), given, found, limit)


async def _rejects(
    queue: "QueueReports", run_id: str, step: str | None, reason: str | None, limit: int, after: int
) -> "tuple[list[StoredReject], int]":
    """Return the rejects that match, and how many there are in all."""
    matching = _matching(queue.rejects(run_id, step=step, after=after), reason)
    return [one async for one in first(matching, limit)], (await queue.stats(run_id)).rejected


async def _matching(
    source: "AsyncIterator[StoredReject]", reason: str | None
) -> "AsyncIterator[StoredReject]":
    async for one in source:
        if reason is None or reason.lower() in one.reason.lower():
            yield one
