"""`shoal records`: every record's way through the steps of a run."""

from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import options
from shoal.cli.asking import ask_existing, first
from shoal.cli.console import complain, counted, put_json, put_rows, say
from shoal.cli.exits import Exit
from shoal.core.model import TaskState
from shoal.fleet.retyping import typed_on

if TYPE_CHECKING:
    from shoal.core.model import TaskStatus
    from shoal.fleet.records import Record
    from shoal.queue.contract import Queue


def records(
    run_id: options.RunId,
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="One record only: its key, else URL, else payload.")
    ] = None,
    step: Annotated[
        str | None, typer.Option("--step", help="Those that are in this step.", metavar="STEP")
    ] = None,
    state: Annotated[
        list[TaskState] | None, typer.Option("--state", help="Those in this state; may be given again.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Show this many.", metavar="N", show_default="50, and all with --json"),
    ] = None,
    queue: options.Queue = options.DEFAULT_QUEUE,
    as_json: options.Json = False,
) -> None:
    """Show each record's way through the steps: its state, who holds it, since when, and what came out.

    Example: shoal records 20260215_120000_ab12 --step profile --state leased
    """
    if as_json:
        count = ask_existing(queue, lambda opened: _put(opened, run_id, key, step, state, limit))
    else:
        count = ask_existing(queue, lambda opened: _show(opened, run_id, key, step, state, limit or 50))
    if not (count or key or state or as_json):
        again = typed_on(queue, f"records {run_id} --state completed")
        say(f"What is completed can be listed too: {again}")
    if key is not None and not count:
        again = typed_on(queue, f"records {run_id}")
        complain(f"Run {run_id} has no record {key!r}. List them with: {again}")
        raise typer.Exit(Exit.USAGE)


async def _put(
    queue: "Queue",
    run_id: str,
    key: str | None,
    step: str | None,
    states: list[TaskState] | None,
    limit: int | None,
) -> int:
    """Write a line of JSON for each record as it comes."""
    from shoal.fleet.records import records as found

    count = 0
    source = found(queue, run_id, step=step, states=states, key=key)
    async for record in first(source, limit) if limit else source:
        put_json(record.as_json())
        count += 1
    return count


async def _show(
    queue: "Queue", run_id: str, key: str | None, step: str | None, states: list[TaskState] | None, limit: int
) -> int:
    """Write a table of the first few."""
    from shoal.fleet.records import records as found

    source = found(queue, run_id, step=step, states=states, key=key)
    listed = [record async for record in first(source, limit + 1)]
    steps = list(dict.fromkeys(step for record in listed for step in record.stages))
    rows = [row(record) for record in listed[:limit]]
    put_rows(rows, ("record", *steps), as_json=False, nothing="" if key else "No such records.")
    if len(listed) > limit:
        say(f"There are more; show them with --limit {10 * limit}, or all of them with --json.")
    return len(listed)


def row(record: "Record") -> dict[str, str]:
    """Return a record as a line of a table: its name, and its state in each step."""
    return {"record": record.name, **{step: told(stage) for step, stage in record.stages.items()}}


def told(stage: "TaskStatus") -> str:
    """Return in a few words where a record is in one step."""
    words = [str(stage.state)]
    if stage.state is TaskState.LEASED and stage.worker_id:
        words.append(f"by {stage.worker_id}")
    if stage.since:
        words.append(f"since {stage.since:%H:%M:%S}")
    if stage.attempt > 1:
        words.append(f"attempt {stage.attempt}")
    if stage.items:
        words.append(counted(stage.items, "item"))
    return ", ".join(words)
