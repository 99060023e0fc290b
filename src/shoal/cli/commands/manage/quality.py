"""`shoal compare` and `shoal accept`: runs side by side, and which of them is right."""

from typing import Annotated

import typer

from shoal.cli.console import put_json, say
from shoal.cli.open_queue import with_existing_queue, with_run
from shoal.cli.options import common
from shoal.cli.tables import put_rows
from shoal.core.model import Run
from shoal.fleet.command_hints import command_on
from shoal.fleet.quality.records import QualityRecord
from shoal.fleet.run.judgement import compare_runs
from shoal.fleet.status.find import find_run
from shoal.fleet.status.quality import ComparedRow, ComparisonReport
from shoal.fleet.status.quality import accept as accept_run
from shoal.queue.contract import Queue


def compare(
    before: Annotated[str, typer.Argument(help="The earlier run.", metavar="RUN")],
    after: Annotated[str, typer.Argument(help="The later run.", metavar="RUN")] = "newest",
    only_changed: Annotated[bool, typer.Option("--changed", help="Only what is different.")] = False,
    queue: common.Queue = common.DEFAULT_QUEUE,
    wide: common.Wide = False,
    as_json: common.Json = False,
) -> None:
    """Show the items and the fields of two runs side by side, and what is more than a usual difference.

    Example: shoal compare 20260215_020000_ab12 newest --changed
    """

    async def read(opened: Queue) -> ComparisonReport:
        return await compare_runs(opened, before, await find_run(opened, after))

    report = with_existing_queue(queue, read)
    report.rows = [row for row in report.rows if row.change or not only_changed]
    if as_json:
        put_json(report)
        return
    put_rows(report.rows, ComparedRow.columns, as_json=False, nothing="No differences.", wide=wide)
    changed = sum(row.change is not None for row in report.rows)
    say(f"Run {report.before} and run {report.after}: {changed or 'nothing'} changed.")


def accept(
    run_id: common.RunId,
    undo: Annotated[bool, typer.Option("--undo", help="Take it back.")] = False,
    queue: common.Queue = common.DEFAULT_QUEUE,
    as_json: common.Json = False,
) -> None:
    """Accept the items of a run: later runs are compared with it, and with no earlier one.

    Example: shoal accept newest
    """

    async def mark(opened: Queue, name: str) -> tuple[Run, QualityRecord]:
        run = await opened.run(name)
        return run, await accept_run(opened, run, undo=undo)

    _, (run, record) = with_run(queue, run_id, mark)
    if as_json:
        put_json({"run_id": run.id, "accepted": record.accepted, "findings": len(record.findings)})
    elif undo:
        say(f"Run {run.id} is judged by what was found in it again.")
    else:
        back = command_on(queue, f"accept {run.id} --undo")
        say(f"Later runs of {run.scraper} are compared with run {run.id}. To take it back: {back}")
