"""`shoal set`: change the settings of a run while it runs, or list them."""

from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.console import put_json, put_rows, say
from shoal.cli.open_queue import with_run
from shoal.cli.options import common

if TYPE_CHECKING:
    from shoal.core.model import Run
    from shoal.queue.contract import Queue

COLUMNS = ("setting", "value", "source", "change")


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

    Example: shoal set 20260215_120000_ab12 rate=2/s per_host=1
    """
    from shoal.cli.options.setting import read_change
    from shoal.fleet.run.change import change_settings, list_settings
    from shoal.fleet.run.settings import command_to_resume, shown

    if not changes:
        _, rows = with_run(queue, run_id, list_settings)
        put_rows([row.as_json() for row in rows], COLUMNS, as_json=as_json, nothing="It has no settings.")
        return
    given = dict(map(read_change, changes))

    async def change(opened: "Queue", found: str) -> "tuple[Run, Run, str]":
        before = await opened.run(found)
        after = await change_settings(opened, found, given)
        return before, after, await command_to_resume(opened, queue, after)

    run_id, (before, run, resume) = with_run(queue, run_id, change)
    if as_json:
        put_json({"run_id": run_id, "state": run.state, "changed": given})
        return
    say(f"Changed for run {run_id}: {shown(given)}. Its workers follow within two seconds.")
    if before.state.has_ended and not run.state.has_ended:
        say(f"It had ended: {before.reason}. To start workers, run: {resume}")
