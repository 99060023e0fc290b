"""`shoal purge`: delete a run, or all old ones."""

from typing import Annotated

import typer

from shoal.cli.console import confirm, counted, put_json, say
from shoal.cli.open_queue import with_existing_queue, with_run
from shoal.cli.options import common
from shoal.core.errors import InvalidInput
from shoal.core.model import ZERO
from shoal.core.values import read_positive_duration
from shoal.fleet.command_hints import command_on
from shoal.fleet.run.retention import PurgeReport, RetentionRule, purge_old, purge_run, words_of


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
        preview = _apply(queue, rule, dry_run=True)
        if preview.runs:
            _show(preview, dry_run=True)
            confirm(f"Delete {counted(len(preview.runs), 'run')}?")
    report = _apply(queue, rule, dry_run=dry_run)
    if as_json:
        put_json(report.row(dry_run=dry_run))
    else:
        _show(report, dry_run=dry_run, with_runs=dry_run or yes)


def _purge_one(run_id: str, queue: str, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    # What `newest` means must not change between the question and the deletion. One that is refused is so
    # before the question.
    run_id, one = with_run(queue, run_id, lambda opened, found: purge_run(opened, found, dry_run=True))
    if not (dry_run or yes):
        _show(PurgeReport([one]), dry_run=True)
        confirm(f"Delete run {run_id} and all its items?")
    if not dry_run:
        one = with_existing_queue(queue, lambda opened: purge_run(opened, run_id))
    if as_json:
        put_json(one.row(), purged=not dry_run, dry_run=dry_run)
    elif dry_run:
        _show(PurgeReport([one]), dry_run=True)
    else:
        say(f"Deleted run {run_id}.")


def _apply(queue: str, rule: "RetentionRule", *, dry_run: bool) -> "PurgeReport":
    return with_existing_queue(queue, lambda opened: purge_old(opened, rule, dry_run=dry_run))


def _show(report: "PurgeReport", *, dry_run: bool, with_runs: bool = True) -> None:
    for one in report.runs if with_runs else ():
        tasks, items = counted(one.stats.tasks, "task"), counted(one.stats.items, "item")
        say(f"  {one.run.id}  {one.run.scraper}  {one.state}  {tasks}, {items}")
    say(words_of(report, dry_run=dry_run))
    if report.unfinished:
        left = counted(report.unfinished, "run")
        say(f"Kept {left} with tasks left; to delete such runs as well: --unfinished")
    if report.in_use:
        say(f"Kept {counted(report.in_use, 'run')} that workers are running on.")
