"""`shoal export`: a run's items as a file or a table, once or as they come."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli import options
from shoal.cli.asking import ask_existing
from shoal.cli.console import counted, put_json, say
from shoal.cli.exits import Exit

if TYPE_CHECKING:
    from shoal.cli.exporting import Wish
    from shoal.export.report import Report

STDOUT = "-"

To = Annotated[
    str,
    typer.Option(
        "--to",
        help="FILE.jsonl, .jsonl.gz, .csv or .parquet; - writes JSON lines to stdout; "
        "sqlite:///FILE?table=NAME or postgresql://…/DATABASE?table=NAME is a table.",
        metavar="FILE|TABLE",
    ),
]
Key = Annotated[
    list[str] | None,
    typer.Option(
        "--key", help="Tables: the field that tells rows apart; may be given again.", metavar="FIELD"
    ),
]
Since = Annotated[
    str | None,
    typer.Option("--since", help="Items stored since: 2026-01-31, 2026-01-31T12:00Z or 2h.", metavar="TIME"),
]
ByStep = Annotated[
    bool, typer.Option("--by-step", help="One file or table for each step: items.STEP.csv, table_STEP.")
]
Follow = Annotated[
    bool,
    typer.Option(
        "--follow", help="Go on as items come, until the run has finished or Ctrl-C: .jsonl, - and tables."
    ),
]
Columns = Annotated[
    str | None, typer.Option("--columns", help="These columns only, in this order.", metavar="A,B")
]


def export(
    run_id: options.RunId,
    to: To,
    key: Key = None,
    step: Annotated[str | None, typer.Option(help="Items of this step only.", metavar="STEP")] = None,
    since: Since = None,
    by_step: ByStep = False,
    follow: Follow = False,
    columns: Columns = None,
    envelope: Annotated[
        bool, typer.Option("--envelope", help="Add url, step, task and time to each item.")
    ] = False,
    raw: Annotated[bool, typer.Option("--raw", help="CSV: do not make cells safe for spreadsheets.")] = False,
    queue: options.Queue = options.DEFAULT_QUEUE,
    as_json: options.Json = False,
) -> None:
    """Write a run's items to a file or a table of a database; it appears when it is whole.

    Example: shoal export 20260215_120000_ab12 --to books.csv

    Example: shoal export 20260215_120000_ab12 --to 'sqlite:///shop.db?table=books' --key isbn
    """
    from shoal.cli.exporting import Wish, carry_out

    wish = Wish(
        to=to,
        key=key or [],
        step=step,
        since=since,
        by_step=by_step,
        follow=follow,
        columns=options.words(columns),
        envelope=envelope,
        raw=raw,
    )
    report = ask_existing(queue, lambda opened: carry_out(opened, run_id, wish))
    if as_json and to != STDOUT:
        put_json(_as_json(run_id, wish, report))
    else:
        _tell(wish, report)
    raise typer.Exit(Exit.OK if report.is_whole and not report.skipped else Exit.PARTIAL)


def _as_json(run_id: str, wish: "Wish", report: "Report") -> dict[str, Any]:
    parted = {"files": dict(report.places)} if wish.by_step else {}
    return {
        "run_id": run_id,
        "items": report.items,
        "file": wish.place,
        "steps": dict(report.steps),
        "skipped": report.skipped,
        **parted,
    }


def _tell(wish: "Wish", report: "Report") -> None:
    if not report.is_whole:
        say("Stopped before the run has finished; the same command begins anew.")
    say(f"Wrote {counted(report.items, 'item')} to {'stdout' if wish.to == STDOUT else wish.place}.")
    if wish.by_step or len(report.steps) > 1:
        for step, count in report.steps.items():
            say(f"  {step}: {count:,}{f' in {report.places[step]}' if step in report.places else ''}")
    if report.skipped:
        key = ", ".join(wish.address_key)
        say(f"Passed over {counted(report.skipped, 'item')} without the key {key}.")
