"""`shoal export`: export a run's items to a file or a table, once or continuously."""

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from shoal.cli.console import counted, put_json, say
from shoal.cli.exits import Exit
from shoal.cli.open_queue import with_run
from shoal.cli.options import common
from shoal.core.errors import InvalidSetting
from shoal.core.model import StoredItem
from shoal.core.values import read_since
from shoal.export.contract import Writer
from shoal.export.follow import Report, stored_since
from shoal.export.follow import export as export_items
from shoal.export.follow import follow as follow_items
from shoal.export.open import Existing, open_writer
from shoal.export.table import row
from shoal.export.tables.address import display_location, read_key
from shoal.fleet.status.progress import Snapshot
from shoal.queue.contract import Queue, QueueReports

SHOWN_COLUMNS = 20

STDOUT = "-"

To = Annotated[
    str,
    typer.Option(
        "--to",
        help="Target: FILE.jsonl, .jsonl.gz, .csv or .parquet; - for JSON lines on stdout; or a table: "
        "sqlite:///FILE?table=NAME, postgresql://…/DATABASE?table=NAME.",
        metavar="FILE|TABLE",
    ),
]
Key = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        help="Tables: unique key field; rows with the same key are updated; repeatable.",
        metavar="FIELD",
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", help="Only items stored since: 2026-01-31, 2026-01-31T12:00Z or 2h.", metavar="TIME"
    ),
]
ByStep = Annotated[
    bool, typer.Option("--by-step", help="One file or table per step: items.STEP.csv, table_STEP.")
]
Follow = Annotated[
    bool,
    typer.Option(
        "--follow",
        help="Keep writing new items until the run finishes or Ctrl-C; for .jsonl, - and tables.",
    ),
]
Columns = Annotated[
    str | None, typer.Option("--columns", help="Only these columns, in this order.", metavar="A,B")
]


async def _write_now(
    queue: Queue,
    run_id: str,
    writer: Writer,
    *,
    step: str | None,
    since: datetime | None,
    columns: Sequence[str],
    envelope: bool,
) -> Report:
    """Write the items that the run has now, and warn of columns that no item has."""
    seen = set[str]()

    async def watched() -> AsyncIterator[StoredItem]:
        async for item in stored_since(queue.items(run_id, step=step), since):
            if not seen.issuperset(columns):
                seen.update(row(item, envelope=envelope))
            yield item

    report = await export_items(watched, writer)
    if report.items and (missing := [name for name in columns if name not in seen]):
        some = ", ".join(sorted(seen)[:SHOWN_COLUMNS])
        say(f"Warning: no item has the column {', '.join(missing)}. The items have: {some}")
    return report


async def _write_until_over(
    queue: Queue, run_id: str, writer: Writer, *, step: str | None, since: datetime | None
) -> Report:
    def behind(after: int) -> AsyncIterator[StoredItem]:
        return queue.items(run_id, step=step, after=after)

    async def ended() -> int | None:
        return await _total(queue, run_id, step)

    say(f"Following run {run_id} (Ctrl-C to stop; written items are kept)")
    return await follow_items(behind, writer, ended=ended, since=since, stop=_stop_on_signal())


async def _total(queue: QueueReports, run_id: str, step: str | None) -> int | None:
    """Return the total number of items once the run is over, None before."""
    run, stats = await queue.run(run_id), await queue.stats(run_id)
    if not Snapshot(run, stats, 0, 0.0, None).is_over:
        return None
    if step is None:
        return stats.items
    return stats.steps[step].items if step in stats.steps else 0


def _stop_on_signal() -> asyncio.Event:
    """Return an event that the first Ctrl-C or SIGTERM sets; the second ends the program at once."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)

    def on_signal() -> None:
        stop.set()
        for number in numbers:
            loop.remove_signal_handler(number)

    for number in numbers:
        loop.add_signal_handler(number, on_signal)
    return stop


def export(
    run_id: common.RunId,
    to: To,
    key: Key = None,
    step: Annotated[str | None, typer.Option(help="Only items of this step.", metavar="STEP")] = None,
    since: Since = None,
    by_step: ByStep = False,
    follow: Follow = False,
    columns: Columns = None,
    envelope: Annotated[
        bool, typer.Option("--envelope", help="Add the url, step, task and time to each item.")
    ] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="CSV: do not escape cells that spreadsheets run as formulas.")
    ] = False,
    overwrite: common.Overwrite = False,
    append: common.Append = False,
    queue: common.Queue = common.DEFAULT_QUEUE,
    as_json: common.Json = False,
) -> None:
    """Export a run's items to a file or a database table. A file appears only once it is complete.

    Example: shoal export newest --to books.csv

    Example: shoal export newest --to 'sqlite:///shop.db?table=books' --key isbn
    """
    existing = _existing(overwrite, append)
    names = common.words(columns)

    async def carry_out(opened: Queue, run: str) -> Report:
        oldest = read_since("--since", since, datetime.now(UTC)) if since else None
        writer = open_writer(
            to,
            key=key or [],
            columns=names,
            by_step=by_step,
            envelope=envelope,
            raw=raw,
            live=follow,
            overwrite=follow and existing != "append",
            existing=existing,
        )
        if follow:
            return await _write_until_over(opened, run, writer, step=step, since=oldest)
        return await _write_now(
            opened, run, writer, step=step, since=oldest, columns=names or (), envelope=envelope
        )

    run_id, report = with_run(queue, run_id, carry_out)
    place = display_location(to)
    if as_json and to != STDOUT:
        found = {"run_id": run_id, "items": report.items, "file": place, "steps": dict(report.steps)}
        parted = {"files": dict(report.locations)} if by_step else {}
        put_json({**found, "skipped": report.skipped, **parted})
    else:
        _print_report(
            report, "stdout" if to == STDOUT else place, by_step=by_step, key=read_key(to, key or [])
        )
    raise typer.Exit(Exit.OK if report.is_complete and not report.skipped else Exit.PARTIAL)


def _existing(overwrite: bool, append: bool) -> Existing:
    if overwrite and append:
        raise InvalidSetting("--append", "adds to the file that --overwrite replaces. Use one of them")
    return "append" if append else "replace" if overwrite else "refuse"


def _print_report(report: Report, place: str, *, by_step: bool, key: Sequence[str]) -> None:
    if not report.is_complete:
        say("Stopped before the run finished; with --overwrite, the same command starts over.")
    say(f"Wrote {counted(report.items, 'item')} to {place}.")
    if by_step or len(report.steps) > 1:
        for step, count in report.steps.items():
            say(f"  {step}: {count:,}{f' in {report.locations[step]}' if step in report.locations else ''}")
    if report.skipped:
        say(f"Skipped {counted(report.skipped, 'item')} without the key {', '.join(key)}.")
