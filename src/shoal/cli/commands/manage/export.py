"""`shoal export`: export a run's items to a file or a table, once or continuously."""

import asyncio
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from shoal.cli.console import counted, put_json, say
from shoal.cli.exits import Exit
from shoal.cli.open_queue import with_run
from shoal.cli.options import common
from shoal.core.errors import InvalidSetting
from shoal.core.model import StoredItem
from shoal.core.values import read_since
from shoal.export.contract import Writer
from shoal.export.follow import Report, follow, stored_since
from shoal.export.follow import export as export_items
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """The export options as typed."""

    to: str
    key: list[str]
    step: str | None
    since: str | None
    by_step: bool
    follow: bool
    columns: list[str] | None
    envelope: bool
    raw: bool
    existing: Existing

    @property
    def place(self) -> str:
        """The target, without a password."""
        return display_location(self.to)

    @property
    def address_key(self) -> tuple[str, ...]:
        """The key fields, from the option and from the address."""
        return read_key(self.to, self.key)

    def open(self) -> Writer:
        """Open the writer of the target; raises InvalidSetting."""
        return open_writer(
            self.to,
            key=self.key,
            columns=self.columns,
            by_step=self.by_step,
            envelope=self.envelope,
            raw=self.raw,
            live=self.follow,
            overwrite=self.follow and self.existing != "append",
            existing=self.existing,
        )


async def carry_out(queue: Queue, run_id: str, request: ExportRequest) -> Report:
    """Run the export and return its report."""
    since = read_since("--since", request.since, datetime.now(UTC)) if request.since else None
    await queue.run(run_id)
    writer = request.open()
    if request.follow:
        return await _follow(queue, run_id, request, writer, since)
    wanted, seen = dict.fromkeys(request.columns or ()), set[str]()

    async def watched() -> AsyncIterator[StoredItem]:
        async for item in stored_since(queue.items(run_id, step=request.step), since):
            if wanted.keys() - seen:
                seen.update(row(item, envelope=request.envelope))
            yield item

    report = await export_items(watched, writer)
    if report.items and (missing := [name for name in wanted if name not in seen]):
        some = ", ".join(sorted(seen)[:SHOWN_COLUMNS])
        say(f"Warning: no item has the column {', '.join(missing)}. The items have: {some}")
    return report


async def _follow(
    queue: Queue, run_id: str, request: ExportRequest, writer: Writer, since: datetime | None
) -> Report:
    def behind(after: int) -> AsyncIterator[StoredItem]:
        return queue.items(run_id, step=request.step, after=after)

    async def ended() -> int | None:
        return await _total(queue, run_id, request.step)

    say(f"Following run {run_id} (Ctrl-C to stop; written items are kept)")
    return await follow(behind, writer, ended=ended, since=since, stop=_stop_on_signal())


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

    request = ExportRequest(
        to=to,
        key=key or [],
        step=step,
        since=since,
        by_step=by_step,
        follow=follow,
        columns=common.words(columns),
        envelope=envelope,
        raw=raw,
        existing=_existing(overwrite, append),
    )
    run_id, report = with_run(queue, run_id, lambda opened, run: carry_out(opened, run, request))
    if as_json and to != STDOUT:
        put_json(_as_json(run_id, request, report))
    else:
        _print_report(request, report)
    raise typer.Exit(Exit.OK if report.is_complete and not report.skipped else Exit.PARTIAL)


def _existing(overwrite: bool, append: bool) -> "Existing":
    if overwrite and append:
        raise InvalidSetting("--append", "adds to the file that --overwrite replaces. Use one of them")
    return "append" if append else "replace" if overwrite else "refuse"


def _as_json(run_id: str, request: "ExportRequest", report: "Report") -> dict[str, Any]:
    parted = {"files": dict(report.locations)} if request.by_step else {}
    return {
        "run_id": run_id,
        "items": report.items,
        "file": request.place,
        "steps": dict(report.steps),
        "skipped": report.skipped,
        **parted,
    }


def _print_report(request: "ExportRequest", report: "Report") -> None:
    if not report.is_complete:
        say("Stopped before the run finished; with --overwrite, the same command starts over.")
    say(f"Wrote {counted(report.items, 'item')} to {'stdout' if request.to == STDOUT else request.place}.")
    if request.by_step or len(report.steps) > 1:
        for step, count in report.steps.items():
            say(f"  {step}: {count:,}{f' in {report.locations[step]}' if step in report.locations else ''}")
    if report.skipped:
        key = ", ".join(request.address_key)
        say(f"Skipped {counted(report.skipped, 'item')} without the key {key}.")
