"""`shoal items` and `shoal rejects`: the first results of a run, and what failed validation."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
import typer

from shoal.cli.console import counted, put_json, say
from shoal.cli.open_queue import DEFAULT_LIMIT, say_more, with_existing_queue, with_run
from shoal.cli.options import common
from shoal.cli.tables import put_rows
from shoal.core.model import StoredItem, StoredReject
from shoal.core.tasks import first
from shoal.core.text import shorten
from shoal.core.values import no_match
from shoal.fleet.run.judgement import profile_of
from shoal.fleet.status.all_runs import FromRun, all_items, run_item_row
from shoal.fleet.status.findings import sample_of
from shoal.fleet.status.quality import FieldRow, ProfileReport, profile_report
from shoal.fleet.status.rows.row import TableColumns
from shoal.fleet.status.rows.tasks import ItemRow, RejectRow, RunItemRow
from shoal.queue.contract import Queue, QueueReports

HEAD = 10
MAX_VALUE = 200  # characters of a value in the table
MAX_COLUMNS = 100  # to lay out thousands takes minutes
KEPT = 3  # fields that a narrow terminal shows in any case


def items(
    run_id: common.MaybeRunId = None,
    head: Annotated[
        int | None,
        typer.Option("--head", "--limit", min=1, help="Show the first N items: 10 by default.", metavar="N"),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option("--sample", min=1, help="Show N random items; reads all of them.", metavar="N"),
    ] = None,
    fields: Annotated[
        str | None, typer.Option("--fields", help="Only these fields, in this order.", metavar="A,B")
    ] = None,
    step: Annotated[
        str | None, typer.Option("--step", help="Only items of this step.", metavar="STEP")
    ] = None,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile", help="Show how much of each field is filled, and with what. Goes with --step only."
        ),
    ] = False,
    all_runs: Annotated[
        bool,
        typer.Option(
            "--all-runs",
            help="Show those of all runs, the newest run first. Goes with --step, --head and --after only.",
        ),
    ] = False,
    after: Annotated[
        str | None,
        typer.Option("--after", help="With --all-runs: continue after this place.", metavar="CURSOR"),
    ] = None,
    queue: common.Queue = common.DEFAULT_QUEUE,
    wide: common.Wide = False,
    as_json: common.Json = False,
) -> None:
    """Show the first items of a run, or a random sample of them. `shoal export` writes all of them.

    Example: shoal items newest --sample 5 --fields title,price

    Example: shoal items newest --profile
    """
    if profile:
        if head or sample or fields or all_runs or after:
            raise typer.BadParameter("--profile goes with --step only")
        _put_profile(queue, run_id, step, wide=wide, as_json=as_json)
        return
    if head is not None and sample is not None:
        raise typer.BadParameter("use either --head or --sample")
    if all_runs:
        if run_id or sample or fields:
            raise typer.BadParameter("--all-runs goes with --step, --head and --after only, and no run")
        _put_all(queue, step, head or HEAD, after, wide=wide, as_json=as_json)
        return
    if after:
        raise typer.BadParameter("--after needs --all-runs; a run has --head and --sample")
    run_id, (found, total, of_all_steps) = with_run(
        queue, run_id, lambda opened, run: _read(opened, run, step, head or HEAD, sample)
    )
    wanted = common.words(fields)
    if as_json:
        for item in found:
            put_json(_row(item, wanted))
    else:
        _put_table(found, wanted, wide, no_match("item", of_all_steps, {"--step": step}))
    known = {name for item in found for name in fields_of(item)}
    unknown = [name for name in wanted or [] if name not in known]
    if found and unknown:
        names = shorten(", ".join(sorted(known))) or "none"
        say(f"No item here has: {', '.join(unknown)}. Its fields: {names}")
    if len(found) < total:
        say(f"{len(found):,} of {counted(total, 'item')} of run {run_id}.")


def _put_profile(queue: str, run_id: str | None, step: str | None, *, wide: bool, as_json: bool) -> None:
    async def read(opened: Queue, name: str) -> ProfileReport:
        return profile_report(await profile_of(opened, await opened.run(name)))

    run_id, report = with_run(queue, run_id, read)
    report.fields = [row for row in report.fields if step in (None, row.step)]
    if as_json:
        put_json(report)
        return
    put_rows(report.fields, FieldRow.columns, as_json=False, nothing="No items.", wide=wide)
    say(f"{counted(report.items, 'item')} of run {run_id}. {report.notice}".rstrip())


def _put_all(
    queue: str, step: str | None, head: int, after: str | None, *, wide: bool, as_json: bool
) -> None:
    async def read(opened: Queue) -> list[FromRun[StoredItem]]:
        return [one async for one in first(all_items(opened, step=step, after=after), head + 1)]

    found = with_existing_queue(queue, read)
    rows = [run_item_row(one) for one in found[:head]]
    put_rows(rows, RunItemRow.columns, as_json=as_json, nothing="No items.", wide=wide)
    given = {"--step": step, "--wide": wide, "--json": as_json}
    say_more(queue, ("items", "--all-runs"), given, found, head)


def _put_table(found: "Sequence[StoredItem]", wanted: list[str] | None, wide: bool, nothing: str) -> None:
    rows = [fields_of(item) for item in found]
    found_columns = wanted or list(dict.fromkeys(name for row in rows for name in row))
    columns = found_columns[:MAX_COLUMNS]
    texts = [{name: _text(row[name]) for name in columns if name in row} for row in rows]
    cut = sum(len(text) > MAX_VALUE for row in texts for text in row.values())
    shown = [{name: _cut(text) for name, text in row.items()} for row in texts]
    # The first fields are kept: a scraper's author puts the important ones there.
    drops = list(reversed(columns[KEPT:]))
    table = TableColumns(columns, drops=drops, folds=columns)
    put_rows(shown, table, as_json=False, nothing=nothing, wide=wide)
    if left := len(found_columns) - len(columns):
        say(f"Not shown here: {counted(left, 'more field')}. To see them: --fields, --profile or --json")
    if cut:
        say(f"{counted(cut, 'value')} cut to {MAX_VALUE} characters; --json shows all of it.")


def fields_of(item: "StoredItem") -> Mapping[str, Any]:
    """Return the fields of an item; one that is no object has the field `item`."""
    return item.data if isinstance(item.data, dict) else {"item": item.data}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 1]}…"


def _row(item: "StoredItem", wanted: Iterable[str] | None) -> ItemRow:
    if wanted is None:
        return ItemRow.of(item)
    given = fields_of(item)
    return ItemRow.of(item, data={name: given[name] for name in wanted if name in given})


async def _read(
    queue: "QueueReports", run_id: str, step: str | None, head: int, sample: int | None
) -> "tuple[list[StoredItem], int, int]":
    """Return the chosen items, how many there are of the step, and how many in all."""
    stats = await queue.stats(run_id)
    total = stats.items if step is None else stats.steps[step].items if step in stats.steps else 0
    source = queue.items(run_id, step=step)
    if sample is not None:
        return await sample_of(source, sample), total, stats.items
    return [item async for item in first(source, head)], total, stats.items


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
