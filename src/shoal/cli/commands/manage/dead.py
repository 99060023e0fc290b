"""`shoal dead`: dead letters, one by one or in bulk by filter."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from shoal.cli.commands.manage.dead_edit import Error, Host, Ids, edit
from shoal.cli.console import confirm, counted, duration, put_json, put_text, say
from shoal.cli.open_queue import DEFAULT_LIMIT, say_more, with_existing_queue, with_run
from shoal.cli.options import common
from shoal.cli.shell.dead_letter import open_dead_shell
from shoal.cli.shell.failed_page import describe_page, find_failure, write_page
from shoal.cli.tables import put_rows
from shoal.core.model import ZERO, DeadFilter, DeadLetter
from shoal.core.tasks import first
from shoal.core.values import no_match, read_positive_duration
from shoal.fleet.command_hints import command_on, joined
from shoal.fleet.run.settings import next_step
from shoal.fleet.status.all_runs import FromRun, all_letters, run_letter_row
from shoal.fleet.status.find import whole_ids
from shoal.fleet.status.rows.letters import (
    AttemptRow,
    DeadLetterRow,
    RunLetterRow,
    letter_row,
    whole_letter_row,
)
from shoal.fleet.status.rows.row import fields_of
from shoal.queue.contract import Queue, QueueReports

app = typer.Typer(no_args_is_help=True, help="List, show, edit, replay and drop dead letters.")
app.command()(edit)

LetterId = Annotated[str, typer.Argument(metavar="ID", help="Id of the dead letter, or its end.")]
Step = Annotated[str | None, typer.Option("--step", help="Only this step.", metavar="STEP")]
Delay = Annotated[
    str | None,
    typer.Option("--delay", help="Wait this long before they are tried: 90s, 10m, 2h.", metavar="TIME"),
]


@app.command("list")
def list_(
    run_id: common.RunFilter = None,
    step: Step = None,
    host: Host = None,
    error: Error = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of rows.", metavar="N")] = DEFAULT_LIMIT,
    after: common.After = None,
    queue: common.Queue = common.DEFAULT_QUEUE,
    wide: common.Wide = False,
    as_json: common.Json = False,
) -> None:
    """List the dead letters of a run, oldest first; without a run those of all runs, newest run first."""
    where = _filter(step, host, error)
    if run_id is None:
        _list_all(queue, where, limit, after, wide=wide, as_json=as_json)
        return
    run_id, (letters, total) = with_run(
        queue, run_id, lambda opened, run: _letters(opened, run, where, limit + 1, after)
    )
    rows = [letter_row(letter) for letter in letters[:limit]]
    # Most letters have neither a key nor a payload, and the columns would be empty.
    empty = [name for name in ("key", "payload") if not any(getattr(row, name) for row in rows)]
    names = [name for name in DeadLetterRow.columns.names if name not in empty]
    put_rows(
        rows,
        DeadLetterRow.columns._replace(names=names),
        as_json=as_json,
        nothing=_no_match(total, where, after),
        wide=wide,
    )
    if letters and not as_json:
        say(f"Details:    {command_on(queue, f'dead show {run_id} {letters[0].id}')}")
        say(f"Change:     {command_on(queue, f'dead edit {run_id} {letters[0].id}')}")
        # Those that were listed: without the options, all others would be tried again too.
        used = [word for name, value in _options(where).items() if value for word in (name, value)]
        say(f"Try again:  {command_on(queue, joined(['dead', 'replay', run_id, *used]))}")
    given = {**_options(where), "--wide": wide, "--json": as_json}
    say_more(queue, ("dead", "list", run_id), given, letters, limit)


def _list_all(
    queue: str, where: DeadFilter, limit: int, after: str | None, *, wide: bool, as_json: bool
) -> None:
    async def read(opened: Queue) -> list[FromRun[DeadLetter]]:
        return [one async for one in first(all_letters(opened, where, after=after), limit + 1)]

    found = with_existing_queue(queue, read)
    rows = [run_letter_row(one) for one in found[:limit]]
    nothing = "No dead letter of any run matches." if any(_options(where).values()) else "No dead letters."
    put_rows(rows, RunLetterRow.columns, as_json=as_json, nothing=nothing, wide=wide)
    if rows and not as_json:
        say(f"Details:    {command_on(queue, f'dead show {rows[0].run_id} {rows[0].id}')}")
    say_more(queue, ("dead", "list"), {**_options(where), "--wide": wide, "--json": as_json}, found, limit)


@app.command()
def show(
    run_id: common.RunId,
    letter_id: LetterId,
    page: Annotated[
        bool,
        typer.Option("--page", help="Write the page that failed to a temporary file and print its path."),
    ] = False,
    queue: common.Queue = common.DEFAULT_QUEUE,
    as_json: common.Json = False,
) -> None:
    """Show one dead letter with its traceback and all its attempts."""
    run_id, (letter, failed) = with_run(
        queue, run_id, lambda opened, run: find_failure(opened, run, letter_id)
    )
    row = whole_letter_row(letter, failed)
    if page:
        path = write_page(failed, letter)
        put_json(row, path=str(path)) if as_json else put_text(str(path))
        return
    if as_json:
        put_json(row)
        return
    for name, value in {
        **fields_of(letter_row(letter)),
        "payload": row.payload or None,
        "request": row.request,
        "page": describe_page(failed),
    }.items():
        put_text(f"{name.replace('_', ' '):10} {value if value is not None else '-'}")
    put_rows(row.history, AttemptRow.columns, as_json=False, nothing="")
    if letter.traceback:
        put_text(f"Traceback of the last attempt:\n{letter.traceback}")
    sys.stdout.flush()  # the commands to type follow the report, also where both are one file
    if failed:
        say(f"See the page:   {command_on(queue, f'dead show --page {run_id} {letter.id}')}")
    say(f"Run its step:   {command_on(queue, f'dead shell {run_id} {letter.id}')}")


@app.command()
def shell(
    run_id: common.RunId,
    letter_id: LetterId,
    scraper: Annotated[
        str | None,
        typer.Argument(metavar="[SCRAPER]", help="FILE[:NAME] of the scraper, unless shoal.toml has it."),
    ] = None,
    allow_private: common.AllowPrivate = None,
    queue: common.Queue = common.DEFAULT_QUEUE,
) -> None:
    """Open a Python shell with the page that failed.

    run() runs its step on it again. Example: shoal dead shell newest 69392d books.py
    """
    open_dead_shell(queue, run_id, letter_id, scraper, allow_private or [])


@app.command()
def replay(
    run_id: common.RunId,
    ids: Ids = None,
    step: Step = None,
    host: Host = None,
    error: Error = None,
    delay: Delay = None,
    queue: common.Queue = common.DEFAULT_QUEUE,
    as_json: common.Json = False,
) -> None:
    """Return dead letters to the queue, with their attempts reset."""
    wait = ZERO if delay is None else read_positive_duration("--delay", delay)
    where = _filter(step, host, error)

    async def replayed(opened: "Queue", run: str) -> tuple[int, int, str]:
        total = (await opened.stats(run)).dead
        chosen = await whole_ids(opened, run, ids) if ids else None
        count = await opened.replay(run, chosen, where=where, delay=wait)
        return count, total, await next_step(opened, queue, await opened.run(run))

    run_id, (count, total, next_line) = with_run(queue, run_id, replayed)
    if as_json:
        put_json({"run_id": run_id, "replayed": count, "delay_seconds": wait.total_seconds()})
    elif count:
        tasks = "1 task is" if count == 1 else f"{count:,} tasks are"
        first = f"delayed for {duration(wait.total_seconds())}, then " if wait else ""
        say(f"{tasks} {first}pending again. {next_line}")
    else:
        say(f"{_no_match(total, where, ids=ids)} Nothing was changed.")


@app.command()
def drop(
    run_id: common.RunId,
    ids: Ids = None,
    step: Step = None,
    host: Host = None,
    error: Error = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    queue: common.Queue = common.DEFAULT_QUEUE,
    as_json: common.Json = False,
) -> None:
    """Drop dead letters for good."""
    if not (ids or yes):
        confirm("Drop every dead letter that matches?")
    where = _filter(step, host, error)

    async def dropped(opened: "Queue", run: str) -> tuple[int, int]:
        total = (await opened.stats(run)).dead
        chosen = await whole_ids(opened, run, ids) if ids else None
        return await opened.drop(run, chosen, where=where), total

    run_id, (count, total) = with_run(queue, run_id, dropped)
    if as_json:
        put_json({"run_id": run_id, "dropped": count})
    elif count:
        say(f"Dropped {counted(count, 'dead letter')}.")
    else:
        say(f"{_no_match(total, where, ids=ids)} Nothing was changed.")


def _no_match(
    total: int, where: "DeadFilter", after: str | None = None, ids: "Sequence[str] | None" = None
) -> str:
    used = _options(where) | {"--after": after, "the ids": " ".join(ids or ())}
    return no_match("dead letter", total, used)


def _options(where: "DeadFilter") -> dict[str, str | None]:
    return {"--step": where.step, "--host": where.host, "--error": where.error}


def _filter(step: str | None, host: str | None, error: str | None) -> "DeadFilter":
    return DeadFilter(step=step, host=host, error=error)


async def _letters(
    queue: "QueueReports", run_id: str, where: "DeadFilter", limit: int, after: str | None
) -> "tuple[list[DeadLetter], int]":
    """Return the letters that match, and how many there are in all."""
    found = [letter async for letter in first(queue.dead(run_id, where, after=after), limit)]
    return found, (await queue.stats(run_id)).dead
