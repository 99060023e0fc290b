"""`shoal status`, `watch`, `runs` and `workers`."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.console import counted, duration, put_json, put_rows, say, shown
from shoal.cli.left_out import missing_lines, skipped_link_lines
from shoal.cli.options import common
from shoal.cli.session import with_existing_queue
from shoal.fleet.hints import command_on

if TYPE_CHECKING:
    from shoal.fleet.status.progress import Snapshot
    from shoal.queue.contract import Queue

RunOption = Annotated[str | None, typer.Option("--run", help="Only this run.", metavar="RUN")]


def status(
    run_id: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Run id; the newest run by default.")
    ] = None,
    queue: common.Queue = common.DEFAULT_QUEUE,
    as_json: common.Json = False,
) -> None:
    """Show the progress of a run, by step and partition."""
    snapshot, retired = with_existing_queue(queue, lambda opened: _with_tokens(opened, run_id))
    if as_json:
        put_json(snapshot.as_json())
        return
    _say_namespace(queue)
    report = snapshot.as_json()
    reason = f", {report['reason']}" if report["reason"] else ""
    say(f"Run {report['run_id']} of {report['scraper']}: {report['state']}{reason}")
    counts = ("pending", "delayed", "leased", "completed", "dead", "expired", "items", "rejected")
    rows = [{"step": name, **counts_of} for name, counts_of in report["steps"].items()]
    if len(report["partitions"]) > 1:
        rows += [
            {"step": f"partition {name or '-'}", **counts_of}
            for name, counts_of in report["partitions"].items()
        ]
    rows.append({"step": "all", **{name: report[name] for name in counts}})
    put_rows(rows, ("step", *counts), as_json=False, nothing="")
    if snapshot.is_over and snapshot.stats.remaining:
        say(f"{counted(snapshot.stats.remaining, 'task')} left, but the run has ended")
    elif snapshot.stats.remaining:
        say(f"{shown(report['rate'])} tasks/s, ETA {duration(report['eta_seconds'])}")
    for line in [*missing_lines(snapshot), *skipped_link_lines(snapshot)]:
        say(line)
    if snapshot.stats.dead:
        say(f"Why tasks died:  {command_on(queue, f'dead list {snapshot.run.id}')}")
    if retired:
        more = command_on(queue, f"tokens {snapshot.run.id}")
        say(f"{counted(retired, 'API token')} retired because the API rejected them:  {more}")


def watch(
    run_id: common.RunId,
    queue: common.Queue = common.DEFAULT_QUEUE,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two updates.", metavar="N")] = 1.0,
    as_json: common.Json = False,
) -> None:
    """Follow a run until it finishes, one line per update."""
    with_existing_queue(queue, lambda opened: _watch(opened, run_id, every, as_json))


def runs(queue: common.Queue = common.DEFAULT_QUEUE, as_json: common.Json = False) -> None:
    """List runs, newest first."""
    columns = ("run_id", "scraper", "state", "remaining", "completed", "dead", "items", "started_at")
    if not as_json:
        _say_namespace(queue)
    put_rows(
        with_existing_queue(queue, lambda opened: _runs(opened)),
        columns,
        as_json=as_json,
        nothing=f"No runs yet. Start one with: {command_on(queue, 'run FILE --url …')}",
    )


def _say_namespace(queue: str) -> None:
    from shoal.queue.namespace import namespace_in, shown_queue

    if namespace_in(queue):
        say(f"Queue {shown_queue(queue)}")


def workers(
    run_id: RunOption = None, queue: common.Queue = common.DEFAULT_QUEUE, as_json: common.Json = False
) -> None:
    """List workers: steps and partitions, tasks held, counts, memory and last heartbeat."""
    rows = with_existing_queue(queue, lambda opened: _workers(opened, run_id))
    columns = (
        *("worker_id", "run_id", "state", "steps", "partitions", "leased", "completed", "failed", "items"),
        *("last_hour", "memory", "last_beat"),
    )
    shown_rows = rows if as_json else map(_worker_shown, rows)
    put_rows(shown_rows, columns, as_json=as_json, nothing="No workers yet.")
    if not as_json and any(row["state"] == "late" for row in rows):
        say(f"Late workers missed heartbeats. To see their tasks, run:  {command_on(queue, 'stale')}")
    if not as_json and any(row["state"] == "frozen" for row in rows):
        say("Frozen workers do not respond; their supervisor kills them when their lease expires.")


def line_of(snapshot: "Snapshot") -> str:
    """Return the progress of a run in one line."""
    report = snapshot.as_json()
    return (
        f"{report['state']:9}  {report['completed']:,} done  {report['remaining']:,} left  "
        f"{report['items']:,} items  {report['dead']:,} dead  {report['rate']:,.1f}/s  "
        f"ETA {duration(report['eta_seconds'])}"
    )


async def newest_run(queue: "Queue") -> str:
    """Return the id of the newest run; raises InvalidSetting where there is none."""
    from shoal.core.errors import InvalidSetting

    newest = next(iter(await queue.runs()), None)
    if newest is None:
        raise InvalidSetting(
            "RUN", "is missing, and this queue has no runs yet. Start one with: shoal run FILE --url …"
        )
    return newest.id


async def _with_tokens(queue: "Queue", run_id: str | None) -> "tuple[Snapshot, int]":
    """Return the progress of a run and the number of its retired API tokens."""
    from shoal.fleet.status.tokens import tokens

    snapshot = await _snapshot(queue, run_id)
    return snapshot, sum(one.state == "retired" for one in await tokens(queue, snapshot.run.id))


async def _snapshot(queue: "Queue", run_id: str | None) -> "Snapshot":
    from shoal.fleet.status.progress import ProgressReader

    progress = ProgressReader(queue, run_id or await newest_run(queue))
    snapshot = await progress.read(last=True)
    if snapshot.stats.remaining and not snapshot.is_over:
        # A rate needs two samples.
        await asyncio.sleep(1.0)
        snapshot = await progress.read()
    return snapshot


async def _watch(queue: "Queue", run_id: str, every: float, as_json: bool) -> None:
    from shoal.fleet.status.progress import ProgressReader

    progress = ProgressReader(queue, run_id)
    while True:
        snapshot = await progress.read()
        if as_json:
            put_json(snapshot.as_json())
        else:
            say(line_of(snapshot))
        if snapshot.is_over:
            return
        await asyncio.sleep(every)


async def _runs(queue: "Queue") -> list[dict[str, Any]]:
    from shoal.fleet.status.rows import read_run_row

    return [await read_run_row(queue, run) for run in await queue.runs()]


async def _workers(queue: "Queue", run_id: str | None) -> list[dict[str, Any]]:
    from shoal.fleet.status.overview import worker_row

    return [worker_row(worker) for worker in await queue.workers(run_id)]


def _worker_shown(row: dict[str, Any]) -> dict[str, Any]:
    from shoal.cli.commands.inspect.top_screen import memory, names

    return row | {
        "steps": names(row["steps"]),
        "partitions": names(row["partitions"]),
        "memory": memory(row["memory_bytes"]),
        "last_beat": duration(row["last_beat_seconds"]),
    }
