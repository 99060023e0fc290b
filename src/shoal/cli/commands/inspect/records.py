"""`shoal records`: trace each record through the steps of a run."""

from typing import Annotated

import typer

from shoal.cli.console import counted, put_json, put_rows, say
from shoal.cli.open_queue import with_run
from shoal.cli.options import common
from shoal.core.errors import InvalidInput
from shoal.core.model import TaskState, TaskStatus
from shoal.core.tasks import first
from shoal.core.values import no_match
from shoal.fleet.command_hints import command_on
from shoal.fleet.status.records import Record
from shoal.fleet.status.records import records as found
from shoal.fleet.status.rows import TableColumns
from shoal.queue.contract import Queue


def records(
    run_id: common.RunId,
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="Only this record: its key, URL or payload.")
    ] = None,
    step: Annotated[
        str | None, typer.Option("--step", help="Only records in this step.", metavar="STEP")
    ] = None,
    state: Annotated[
        list[TaskState] | None, typer.Option("--state", help="Only records in this state; repeatable.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, help="Maximum number of records.", metavar="N", show_default="50; all with --json"
        ),
    ] = None,
    queue: common.Queue = common.DEFAULT_QUEUE,
    wide: common.Wide = False,
    as_json: common.Json = False,
) -> None:
    """Trace each record through the steps: state, worker, time, and number of items.

    Example: shoal records newest --step profile --state leased
    """
    if as_json:
        run_id, count = with_run(
            queue, run_id, lambda opened, run: _put(opened, run, key, step, state, limit)
        )
    else:
        run_id, count = with_run(
            queue, run_id, lambda opened, run: _show(opened, run, key, step, state, limit or 50, wide)
        )
    if not (count or key or state or as_json):
        again = command_on(queue, f"records {run_id} --state completed")
        say(f"To list completed records, run: {again}")
    if key is not None and not count:
        again = command_on(queue, f"records {run_id}")
        raise InvalidInput(f"Run {run_id} has no record {key!r}. List its records with: {again}")


async def _put(
    queue: "Queue",
    run_id: str,
    key: str | None,
    step: str | None,
    states: list[TaskState] | None,
    limit: int | None,
) -> int:
    """Print a line of JSON for each record as it is read."""

    count = 0
    source = found(queue, run_id, step=step, states=states, key=key)
    async for record in first(source, limit) if limit else source:
        put_json(record.row())
        count += 1
    return count


async def _show(
    queue: "Queue",
    run_id: str,
    key: str | None,
    step: str | None,
    states: list[TaskState] | None,
    limit: int,
    wide: bool,
) -> int:
    """Print a table of the first `limit` records."""

    used = {"--step": step, "--state": ", ".join(map(str, states or ()))}
    source = found(queue, run_id, step=step, states=states, key=key)
    listed = [record async for record in first(source, limit + 1)]
    steps = list(dict.fromkeys(step for record in listed for step in record.stages))
    rows = [row(record) for record in listed[:limit]]
    nothing = "" if key else no_match("task", (await queue.stats(run_id)).tasks, used)
    columns = TableColumns(("record", *steps), folds=("record", *steps))
    put_rows(rows, columns, as_json=False, nothing=nothing, wide=wide)
    if len(listed) > limit:
        say(f"There are more: use --limit {10 * limit}, or --json for all of them.")
    return len(listed)


def row(record: "Record") -> dict[str, str]:
    """Return a record as a table row: its name and its state in each step."""
    return {"record": record.name, **{step: describe(stage) for step, stage in record.stages.items()}}


def describe(stage: "TaskStatus") -> str:
    """Return the state of a record in one step, in a few words."""
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
