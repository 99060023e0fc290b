"""`shoal records`, `partitions` and `stale`: the tasks of a run by record, by partition and by old lease."""

from collections.abc import AsyncIterator
from shlex import quote
from typing import Annotated, Any

import typer

from shoal.cli.console import counted, put_json, say
from shoal.cli.open_queue import id_of, with_existing_queue, with_run
from shoal.cli.options import common
from shoal.cli.tables import put_rows
from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.core.model import Run, TaskState, TaskStatus
from shoal.core.tasks import first
from shoal.core.values import hint, no_match, read_duration
from shoal.fleet.command_hints import command_on, joined, queue_option
from shoal.fleet.status import stale as staleness
from shoal.fleet.status.partitions import PartitionStatus
from shoal.fleet.status.partitions import partitions as read_partitions
from shoal.fleet.status.records import Record
from shoal.fleet.status.records import records as read_records
from shoal.fleet.status.rows.row import TableColumns
from shoal.fleet.status.rows.workers import PartitionRow, StaleRow
from shoal.fleet.status.stale import StaleHolder
from shoal.queue.contract import Queue, QueueReports
from shoal.worker.run_settings import read_note

MAX_NAMES_SHOWN = 20

DEFAULT_AGE = "10m"
MAX_COMMANDS_SHOWN = 5  # one for each live worker


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
        typer.Option(min=1, help="Maximum number of records: 50 by default, all with --json.", metavar="N"),
    ] = None,
    queue: common.Queue = common.DEFAULT_QUEUE,
    wide: common.Wide = False,
    as_json: common.Json = False,
) -> None:
    """Trace each record through the steps: state, worker, time, and number of items.

    Example: shoal records newest --step profile --state leased
    """

    async def write(opened: Queue, run: str) -> int:
        source = read_records(opened, run, step=step, states=state, key=key)
        if as_json:
            return await _put_records(source, limit)
        used = {"--step": step, "--state": ", ".join(map(str, state or ()))}
        nothing = "" if key else no_match("task", (await opened.stats(run)).tasks, used)
        return await _show_records(source, limit or 50, nothing, wide)

    run_id, count = with_run(queue, run_id, write)
    if not (count or key or state or as_json):
        again = command_on(queue, f"records {run_id} --state completed")
        say(f"To list completed records, run: {again}")
    if key is not None and not count:
        again = command_on(queue, f"records {run_id}")
        raise InvalidInput(f"Run {run_id} has no record {key!r}. List its records with: {again}")


async def _put_records(source: AsyncIterator[Record], limit: int | None) -> int:
    """Print a line of JSON for each record as it is read."""
    count = 0
    async for record in first(source, limit) if limit else source:
        put_json(record.row())
        count += 1
    return count


async def _show_records(source: AsyncIterator[Record], limit: int, nothing: str, wide: bool) -> int:
    """Print a table of the first `limit` records."""
    listed = [record async for record in first(source, limit + 1)]
    steps = list(dict.fromkeys(step for record in listed for step in record.stages))
    rows = [row(record) for record in listed[:limit]]
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


def partitions(
    run_id: common.MaybeRunId = None,
    queue: common.Queue = common.DEFAULT_QUEUE,
    wide: common.Wide = False,
    as_json: common.Json = False,
) -> None:
    """Show each partition of a run: pending tasks, owning worker, and how long it has owned it.

    Example: shoal partitions newest
    """

    async def look(opened: "Queue", run_id: str) -> "tuple[list[PartitionStatus], Run, str]":
        run, stored = await opened.run(run_id), (await read_note(opened, run_id)).settings
        return list(await read_partitions(opened, run_id)), run, stored.scraper or run.scraper

    run_id, (listed, run, scraper) = with_run(queue, run_id, look)
    rows, nothing = [one.row() for one in listed], f"Run {run_id} has no tasks yet."
    put_rows(rows, PartitionRow.columns, as_json=as_json, nothing=nothing, wide=wide)
    orphaned = [one.name or "-" for one in listed if one.is_left_alone]
    if orphaned and not as_json:
        more = ", …" if len(orphaned) > MAX_NAMES_SHOWN else ""
        names = ", ".join(orphaned[:MAX_NAMES_SHOWN])
        say(f"{counted(len(orphaned), 'partition')} with pending tasks and no owner: {names}{more}")
        again = command_on(queue, f"work {quote(scraper)} --run {run_id} --partitions auto")
        say(f"The run is {run.state}." if run.state.has_ended else f"Start workers for them: {again}")


def stale(
    run_id: common.RunFilter = None,
    older: Annotated[
        str, typer.Option("--older", help="Also show leases held for longer than this.", metavar="TIME")
    ] = DEFAULT_AGE,
    worker: Annotated[
        str | None, typer.Option("--worker", help="Only leases of this worker.", metavar="WORKER")
    ] = None,
    release: Annotated[
        bool,
        typer.Option("--release", help="Return the tasks of dead workers, or of --worker, to the queue."),
    ] = False,
    queue: common.Queue = common.DEFAULT_QUEUE,
    wide: common.Wide = False,
    as_json: common.Json = False,
) -> None:
    """Show leases of workers that stopped sending heartbeats, and leases held for very long.

    Leases expire on their own, and live workers extend them; --release does not wait for that. A released
    task gets its attempt back, and a late result of its old worker is rejected.

    Example: shoal stale --release
    """
    oldest = read_duration("--older", older)
    found, count = with_existing_queue(queue, lambda opened: _look(opened, run_id, oldest, worker, release))
    put_rows(
        [holder.row() for holder in found],
        StaleRow.columns,
        as_json=as_json,
        nothing=f"No lease of {worker} is stale." if worker else "No lease is stale.",
        wide=wide,
    )
    more = queue_option(queue)
    words = ["shoal", "stale", *([run_id] if run_id else []), "--release"]
    _print_next_steps(
        found, count, [*words, *([] if older == DEFAULT_AGE else ["--older", older]), *more], release
    )


async def _look(
    queue: "Queue", run_id: str | None, older: Any, worker: str | None, release: bool
) -> tuple[list["StaleHolder"], int]:
    run_id = await id_of(queue, run_id)
    found = await staleness.stale_holders(queue, run_id, older=older)
    if worker:
        found = [holder for holder in found if holder.worker_id == worker]
        await _refuse_unknown(queue, run_id, worker, found)
    if not release:
        return found, 0
    meant = [holder for holder in found if holder.is_gone or worker]
    return found, await staleness.release(queue, meant)


async def _refuse_unknown(
    queue: "QueueReports", run_id: str | None, worker: str, found: list["StaleHolder"]
) -> None:
    known = [one.worker_id for one in await queue.workers(run_id)]
    if not found and worker not in known:
        raise InvalidSetting(
            "--worker", f"is unknown in this queue: {worker!r}. {hint(worker, known or ['-'])}"
        )


def _print_next_steps(found: list["StaleHolder"], count: int, command: list[str], release: bool) -> None:
    """Print what was done and the commands for the rest; each can be pasted as it is."""
    alive = [holder for holder in found if not holder.is_gone and not holder.at_most_once]
    gone = [holder for holder in found if holder.is_gone and not holder.at_most_once]
    kept = sum(len(holder.tasks) for holder in found if holder.at_most_once)
    if release:
        say(f"Released {counted(count, 'lease')}.")
    elif gone:
        say(f"Release them:  {joined(command)}")
    if kept:
        say(f"{kept:,} of the tasks are at_most_once: they become dead letters when their leases expire.")
    if alive and not (release and count):
        verb = "is" if len(alive) == 1 else "are"
        say(f"{counted(len(alive), 'worker')} {verb} alive and may be busy. To release their tasks, run:")
        for holder in alive[:MAX_COMMANDS_SHOWN]:
            say(f"  {joined([*command, '--worker', holder.worker_id])}")
