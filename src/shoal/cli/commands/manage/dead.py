"""`shoal dead`: dead letters, one by one or in bulk by filter."""

from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.console import put_json, put_rows, say
from shoal.cli.options import common
from shoal.cli.session import first, say_more, with_existing_queue
from shoal.fleet.hints import command_on

if TYPE_CHECKING:
    from shoal.core.model import DeadFilter, DeadLetter
    from shoal.queue.contract import Queue

app = typer.Typer(no_args_is_help=True, help="List, show, replay and drop dead letters.")

Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID]...", help="Ids of dead letters; all that match by default."),
]
Step = Annotated[str | None, typer.Option("--step", help="Only this step.", metavar="STEP")]
Host = Annotated[str | None, typer.Option("--host", help="Only this host.", metavar="HOST")]
Error = Annotated[
    str | None, typer.Option("--error", help="Only errors that contain this text.", metavar="TEXT")
]


@app.command("list")
def list_(
    run_id: common.RunId,
    step: Step = None,
    host: Host = None,
    error: Error = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of rows.", metavar="N")] = 50,
    after: common.After = None,
    queue: common.Queue = common.DEFAULT_QUEUE,
    as_json: common.Json = False,
) -> None:
    """List the dead letters of a run, oldest first."""
    from shoal.fleet.status.rows import letter_row

    where = _filter(step, host, error)
    letters = with_existing_queue(queue, lambda opened: _letters(opened, run_id, where, limit + 1, after))
    rows = [letter_row(letter) for letter in letters[:limit]]
    put_rows(rows, ("id", "step", "url", "attempts", "error"), as_json=as_json, nothing="No dead letters.")
    if letters and not as_json:
        say(f"Details:    {command_on(queue, f'dead show {run_id} {letters[0].id}')}")
        say(f"Try again:  {command_on(queue, f'dead replay {run_id}')}")
    say_more(letters, limit)


@app.command()
def show(
    run_id: common.RunId,
    letter_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the dead letter.")],
    queue: common.Queue = common.DEFAULT_QUEUE,
    as_json: common.Json = False,
) -> None:
    """Show one dead letter with all its attempts."""
    from shoal.fleet.status.rows import find_letter, letter_row, whole_letter_row

    letter = with_existing_queue(queue, lambda opened: find_letter(opened, run_id, letter_id))
    row = whole_letter_row(letter)
    if as_json:
        put_json(row)
        return
    for name, value in {
        **letter_row(letter),
        "payload": row["payload"] or None,
        "request": row["request"],
    }.items():
        say(f"{name.replace('_', ' '):10} {value if value is not None else '-'}")
    put_rows(row["history"], ("attempt", "ended_at", "worker_id", "error"), as_json=False, nothing="")


@app.command()
def replay(
    run_id: common.RunId,
    ids: Ids = None,
    step: Step = None,
    host: Host = None,
    error: Error = None,
    queue: common.Queue = common.DEFAULT_QUEUE,
    as_json: common.Json = False,
) -> None:
    """Return dead letters to the queue with their attempts reset."""
    from shoal.fleet.run.settings import command_to_resume

    async def replayed(opened: "Queue") -> tuple[int, str]:
        count = await opened.replay(run_id, ids or None, where=_filter(step, host, error))
        return count, await command_to_resume(opened, queue, await opened.run(run_id))

    count, again = with_existing_queue(queue, replayed)
    if as_json:
        put_json({"run_id": run_id, "replayed": count})
    else:
        say(f"{count:,} tasks are pending again. To work on them, run: {again}")


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
        typer.confirm("Drop every dead letter that matches?", abort=True, err=True)
    count = with_existing_queue(
        queue, lambda opened: opened.drop(run_id, ids or None, where=_filter(step, host, error))
    )
    if as_json:
        put_json({"run_id": run_id, "dropped": count})
    else:
        say(f"Dropped {count:,} dead letters.")


def _filter(step: str | None, host: str | None, error: str | None) -> "DeadFilter":
    from shoal.core.model import DeadFilter

    return DeadFilter(step=step, host=host, error=error)


async def _letters(
    queue: "Queue", run_id: str, where: "DeadFilter", limit: int, after: str | None
) -> list["DeadLetter"]:
    return [letter async for letter in first(queue.dead(run_id, where, after=after), limit)]
