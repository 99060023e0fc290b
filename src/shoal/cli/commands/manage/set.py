"""`shoal set`: change the settings of a run while it runs, or list them."""

from typing import Annotated

import typer

from shoal.cli.console import put_json, put_rows, say
from shoal.cli.open_queue import with_run
from shoal.cli.options import common
from shoal.cli.options.workers import read_change
from shoal.core.model import Run
from shoal.fleet.command_hints import command_on, joined
from shoal.fleet.run.change import NOW, change_settings, list_settings
from shoal.fleet.run.settings import next_step, shown
from shoal.fleet.status.rows import TableColumns
from shoal.queue.contract import Queue

COLUMNS = TableColumns(("setting", "value", "source", "change"))


def set(
    run_id: common.RunId,
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Settings to change, such as rate=2/s max_pages=500."),
    ] = None,
    queue: common.Queue = common.DEFAULT_QUEUE,
    as_json: common.Json = False,
) -> None:
    """Change settings of a run: its workers follow within two seconds. Without settings, list them.

    Example: shoal set newest rate=2/s per_host=1
    """

    if not changes:
        run_id, rows = with_run(queue, run_id, list_settings)
        put_rows(rows, COLUMNS, as_json=as_json, nothing="It has no settings.")
        if not as_json:
            example = next((f"{row.setting}={row.value}" for row in rows if row.change == NOW), "rate=2/s")
            say(f"To change one, run: {command_on(queue, joined(['set', run_id, example]))}")
        return
    given = dict(map(read_change, changes))

    async def change(opened: "Queue", found: str) -> "tuple[Run, Run, str]":
        before = await opened.run(found)
        after = await change_settings(opened, found, given)
        return before, after, await next_step(opened, queue, after)

    run_id, (before, run, next_line) = with_run(queue, run_id, change)
    if as_json:
        put_json({"run_id": run_id, "state": run.state, "changed": given})
        return
    has_reopened = before.state.has_ended and not run.state.has_ended
    ended = f" It had ended: {before.reason}." if has_reopened else ""
    say(f"Changed for run {run_id}: {shown(given)}.{ended} {next_line}")
