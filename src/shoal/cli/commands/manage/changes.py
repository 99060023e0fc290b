"""`shoal changes`: the pages of a recrawl that are new, changed or gone."""

from collections.abc import AsyncIterator
from dataclasses import fields
from datetime import UTC, datetime
from typing import Annotated

import typer

from shoal.cli.console import counted, put_json, say
from shoal.cli.open_queue import DEFAULT_LIMIT, say_more, with_run
from shoal.cli.options import common
from shoal.cli.tables import put_rows
from shoal.core.model import Run, StoredItem
from shoal.core.tasks import first
from shoal.export.follow import Report
from shoal.export.follow import export as export_items
from shoal.export.open import Existing, open_writer
from shoal.export.tables.address import display_location
from shoal.export.target import STDOUT
from shoal.fleet.sources.recrawl import Comparison, compared
from shoal.fleet.status.changes import ListedChange, list_changes, read_change_kind
from shoal.fleet.status.rows.row import as_json as row_json
from shoal.fleet.status.rows.tasks import ChangeRow
from shoal.queue.contract import Queue
from shoal.worker.recrawl import PageChange

NOT_RECORDED = "No pages were recorded by run {run}. Set recrawl=True in the scraper, and run it twice."


def changes(
    run_id: common.MaybeRunId = None,
    only: Annotated[
        str | None,
        typer.Option(
            "--only",
            help="Only pages of this kind; by default all but those that are unchanged.",
            metavar="|".join(PageChange),
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="Write all of them to FILE.jsonl, .csv or .parquet, to a table, or - for stdout.",
            metavar="FILE|TABLE",
        ),
    ] = None,
    overwrite: common.Overwrite = False,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of rows.", metavar="N")] = DEFAULT_LIMIT,
    after: common.After = None,
    queue: common.Queue = common.DEFAULT_QUEUE,
    wide: common.Wide = False,
    as_json: common.Json = False,
) -> None:
    """List the pages that are new, changed or gone since their last fetch, and the fields that differ.

    Example: shoal changes newest --only changed

    Example: shoal changes newest --to changes.csv
    """
    kind = read_change_kind(only)
    if to:
        _export(queue, run_id, kind, to, overwrite=overwrite, as_json=as_json)
        return
    if overwrite:
        raise typer.BadParameter("--overwrite needs --to FILE")

    async def read(opened: Queue, name: str) -> tuple[list[ListedChange], Comparison]:
        run = await opened.run(name)
        listed = list_changes(opened, run, only=kind, after=after)
        return [one async for one in first(listed, limit + 1)], await compared(opened, run)

    run_id, (found, counts) = with_run(queue, run_id, read)
    is_recorded = any(counts.as_json().values())
    said = f"Pages of run {run_id}: {counts}." if is_recorded else NOT_RECORDED.format(run=run_id)
    rows = [change.row() for change in found[:limit]]
    put_rows(rows, ChangeRow.columns, as_json=as_json, nothing="No changes.", wide=wide)
    say(said)
    given = {"--only": only, "--wide": wide, "--json": as_json}
    say_more(queue, ("changes", run_id), given, found, limit)


def _export(
    queue: str, run_id: str | None, kind: PageChange | None, to: str, *, overwrite: bool, as_json: bool
) -> None:
    async def write(opened: Queue, name: str) -> Report:
        run = await opened.run(name)
        existing: Existing = "replace" if overwrite else "refuse"
        writer = open_writer(to, columns=[field.name for field in fields(ChangeRow)], existing=existing)
        return await export_items(lambda: _as_items(opened, run, kind), writer)

    run_id, report = with_run(queue, run_id, write)
    if as_json and to != STDOUT:
        put_json({"run_id": run_id, "rows": report.items, "file": display_location(to)})
    else:
        say(f"Wrote {counted(report.items, 'row')} to {'stdout' if to == STDOUT else display_location(to)}.")


async def _as_items(queue: Queue, run: Run, kind: PageChange | None) -> AsyncIterator[StoredItem]:
    """Yield the changes as items, which is what writers take."""
    now, number = datetime.now(UTC), 0
    async for change in list_changes(queue, run, only=kind):
        number += 1
        data = row_json(change.row())
        yield StoredItem(id=number, task_id="", url=change.url, step="change", data=data, stored_at=now)
