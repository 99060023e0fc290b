"""`shoal pause`, `resume`, `cancel`, `set`, `purge` and `forget`."""

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from shoal.cli.configuration import current_project
from shoal.cli.console import confirm, counted, put_json, say
from shoal.cli.open_queue import with_existing_queue, with_run
from shoal.cli.options import common
from shoal.cli.options.workers import read_change
from shoal.cli.tables import put_rows
from shoal.core.errors import InvalidInput
from shoal.core.model import ZERO, Run, RunState
from shoal.core.values import read_positive_duration
from shoal.fleet.command_hints import command_on, export_command, joined
from shoal.fleet.project.scrapers import load
from shoal.fleet.run import lifecycle
from shoal.fleet.run.retention import PurgeReport, RetentionRule, purge_old, purge_run, words_of
from shoal.fleet.run.settings import NO_TASKS_LEFT, NOW, change_settings, list_settings, next_step, shown
from shoal.fleet.status.progress import Snapshot
from shoal.fleet.status.rows.row import TableColumns
from shoal.queue.contract import Queue

SETTING_COLUMNS = TableColumns(("setting", "value", "source", "change"))


def pause(
    run_id: common.RunId, queue: common.Queue = common.DEFAULT_QUEUE, as_json: common.Json = False
) -> None:
    """Pause a run: workers get no more of its tasks until you resume it."""

    def words(run: "Run") -> str:
        if run.state is RunState.PAUSED:
            return f"Paused. To resume, run: {command_on(queue, f'resume {run.id}')}"
        return f"Run {run.id} has already finished; nothing was paused."

    _steer(queue, run_id, lifecycle.pause, as_json, words)


def resume(
    run_id: common.RunId, queue: common.Queue = common.DEFAULT_QUEUE, as_json: common.Json = False
) -> None:
    """Resume a run that was paused, or that ended at a limit with tasks left."""

    async def look(opened: "Queue", found: str) -> "tuple[Run, str]":
        run = await opened.run(found)
        return run, await next_step(opened, queue, run, "Its workers notice within a second.")

    run_id, (before, more) = with_run(queue, run_id, look)
    ended = f" It had ended: {before.reason}." if before.reason else ""
    words = f"Resumed.{ended} {more}"
    if before.state is RunState.RUNNING and more == NO_TASKS_LEFT:
        words = f"Run {run_id} has already finished; nothing was resumed. {more}"
    _steer(queue, run_id, lifecycle.resume, as_json, lambda run: words)


def cancel(
    run_id: common.RunId, queue: common.Queue = common.DEFAULT_QUEUE, as_json: common.Json = False
) -> None:
    """End a run for good: workers get no more of its tasks, and its results are kept."""

    def words(run: "Run") -> str:
        again = export_command(queue, run.id)
        if run.state.has_ended:
            return f"Cancelled. To export its items, run: {again}"
        return f"Run {run.id} has already finished. To export its items, run: {again}"

    _steer(queue, run_id, lifecycle.cancel, as_json, words)


def _steer(
    url: str,
    run_id: str,
    steer: "Callable[[Queue, str], Awaitable[Run]]",
    as_json: bool,
    words: "Callable[[Run], str]",
) -> None:
    async def steered(queue: "Queue", found: str) -> "Snapshot":
        run = await steer(queue, found)
        return Snapshot(run, await queue.stats(run.id), 0, 0.0, None)

    _, snapshot = with_run(url, run_id, steered)
    if as_json:
        put_json({"run_id": snapshot.run.id, "state": snapshot.state})
    else:
        say(words(snapshot.run))


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
        put_rows(rows, SETTING_COLUMNS, as_json=as_json, nothing="It has no settings.")
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


def purge(
    run_id: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Run id. List them with: shoal runs")
    ] = None,
    older: Annotated[
        str | None,
        typer.Option("--older", help="All runs that ended at least this long ago.", metavar="TIME"),
    ] = None,
    keep: Annotated[
        int | None, typer.Option("--keep", min=0, help="Keep the newest N runs of each scraper.", metavar="N")
    ] = None,
    scraper: Annotated[
        str | None, typer.Option("--scraper", help="Only runs of this scraper.", metavar="NAME")
    ] = None,
    unfinished: Annotated[bool, typer.Option("--unfinished", help="Also runs that have tasks left.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")] = False,
    queue: common.Queue = common.DEFAULT_QUEUE,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    as_json: common.Json = False,
) -> None:
    """Delete a run, or old runs, with all tasks, items and dead letters. This cannot be undone."""
    if run_id is not None:
        if older or keep is not None or scraper or unfinished:
            raise InvalidInput("Name a RUN, or select old runs with --older and --keep; not both.")
        _purge_one(run_id, queue, dry_run=dry_run, yes=yes, as_json=as_json)
        return
    age = read_positive_duration("--older", older) if older else ZERO
    if keep == 0 and not older:
        raise InvalidInput(
            "--keep 0 keeps no run, so it needs --older too. "
            f"To delete every finished run: {command_on(queue, 'purge --older 1s')}"
        )
    rule = RetentionRule(older=age, keep=keep or 0, scraper=scraper, unfinished=unfinished)
    if not (dry_run or yes):
        preview = _purge_old(queue, rule, dry_run=True)
        if preview.runs:
            _show_purged(preview)
            confirm(f"Delete {counted(len(preview.runs), 'run')}?")
    report = _purge_old(queue, rule, dry_run=dry_run)
    if as_json:
        put_json(report)
    else:
        _show_purged(report, with_runs=dry_run or yes)


def _purge_one(run_id: str, queue: str, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    # What `newest` means must not change between the question and the deletion. One that is refused is so
    # before the question.
    run_id, one = with_run(queue, run_id, lambda opened, found: purge_run(opened, found, dry_run=True))
    if not (dry_run or yes):
        _show_purged(PurgeReport.over([one], dry_run=True))
        confirm(f"Delete run {run_id} and all its items?")
    if not dry_run:
        one = with_existing_queue(queue, lambda opened: purge_run(opened, run_id))
    if as_json:
        put_json(one, purged=not dry_run, dry_run=dry_run)
    elif dry_run:
        _show_purged(PurgeReport.over([one], dry_run=True))
    else:
        say(f"Deleted run {run_id}.")


def _purge_old(queue: str, rule: "RetentionRule", *, dry_run: bool) -> "PurgeReport":
    return with_existing_queue(queue, lambda opened: purge_old(opened, rule, dry_run=dry_run))


def _show_purged(report: "PurgeReport", *, with_runs: bool = True) -> None:
    for one in report.runs if with_runs else ():
        tasks, items = counted(one.tasks, "task"), counted(one.items, "item")
        say(f"  {one.run_id}  {one.scraper}  {one.state}  {tasks}, {items}")
    say(words_of(report))
    if report.unfinished:
        left = counted(report.unfinished, "run")
        say(f"Kept {left} with tasks left; to delete such runs as well: --unfinished")
    if report.in_use:
        say(f"Kept {counted(report.in_use, 'run')} that workers are running on.")


def forget(
    scraper: common.Scraper,
    queue: common.Queue = common.DEFAULT_QUEUE,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    as_json: common.Json = False,
) -> None:
    """Clear the --dedup history of a scraper: its next run queues every task again.

    Example: shoal forget books.py --yes
    """
    name = load(current_project(), scraper).scraper.name
    if not yes:
        confirm(f"Clear the dedup history of {name}? Its next run queues every task again.")
    count = with_existing_queue(queue, lambda opened: opened.forget(name))
    if as_json:
        put_json({"scraper": name, "forgotten": count})
    else:
        say(f"Cleared {counted(count, 'task')} from the dedup history of {name}; its runs are unchanged.")
