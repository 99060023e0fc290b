"""`shoal export`: export a run's items to a file or a table, once or continuously."""

from typing import Annotated, Any

import typer

from shoal.cli.commands.manage.export_run import ExportRequest, carry_out
from shoal.cli.console import counted, put_json, say
from shoal.cli.exits import Exit
from shoal.cli.open_queue import with_run
from shoal.cli.options import common
from shoal.core.errors import InvalidSetting
from shoal.export.follow import Report
from shoal.export.open import Existing

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
