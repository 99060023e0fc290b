"""`shoal status`, `watch`, `runs` and `workers`."""

import asyncio
import sys
import time
from dataclasses import replace
from typing import Annotated

import typer
from msgspec import structs

from shoal.cli.console import counted, duration, put_json, put_text, say, shown
from shoal.cli.left_out import (
    file_words,
    hook_lines,
    missing_lines,
    reservation_lines,
    running_hook_lines,
    skipped_link_lines,
    stats_lines,
)
from shoal.cli.open_queue import id_of, say_queue, with_existing_queue, with_run
from shoal.cli.options import common
from shoal.cli.quality import outcome_lines
from shoal.cli.tables import put_rows
from shoal.core.model import ReportedState, WorkerState
from shoal.core.run_outcome import RunOutcome
from shoal.fleet.command_hints import command_on, command_to_resume
from shoal.fleet.status.at_work import GONE_SHOWN, is_live, runs_at_work, unserved_steps
from shoal.fleet.status.overview import why_workers_wait, worker_row
from shoal.fleet.status.progress import ProgressReader, Snapshot, read_run_row
from shoal.fleet.status.rates import recent_rate
from shoal.fleet.status.rows.row import TableColumns, fields_of
from shoal.fleet.status.rows.runs import RunRow
from shoal.fleet.status.rows.workers import WorkerRow
from shoal.fleet.status.tokens import tokens
from shoal.queue.address import shown_queue
from shoal.queue.contract import Queue, StoreSize

SAME_LINE_SECONDS = 10.0  # after which `watch` repeats a line
STEP_COLUMNS = TableColumns(
    ("step", "pending", "delayed", "leased", "completed", "dead", "expired", "items", "rejected"),
    drops=("expired", "delayed", "rejected"),
    folds=("step",),
)


def status(
    run_id: common.MaybeRunId = None,
    queue: common.Queue = common.DEFAULT_QUEUE,
    wide: common.Wide = False,
    as_json: common.Json = False,
) -> None:
    """Show the progress of a run, by step and partition."""
    _, (snapshot, retired, size, again, why) = with_run(
        queue, run_id, lambda opened, run: _with_tokens(opened, run, queue)
    )
    if as_json:
        put_json(snapshot.row(), queue=shown_queue(queue), store=size, waits_for=why)
        return
    say_queue(queue)
    report = snapshot.row()
    reason = f", {report.reason}" if report.reason else ""
    is_told = snapshot.outcome in (None, RunOutcome.COMPLETE, report.state)
    ended = f", {snapshot.outcome.words}" if snapshot.outcome and not is_told else ""
    put_text(f"Run {report.run_id} of {report.scraper}: {report.state}{reason}{ended}")
    lasted = f", duration {duration(report.duration_seconds)}" if report.duration_seconds is not None else ""
    put_text(f"Started {report.started_at}{lasted}")
    rows = [{"step": name, **fields_of(counts)} for name, counts in report.steps.items()]
    if len(report.partitions) > 1:
        rows += [
            {"step": f"partition {name or '-'}", **fields_of(counts)}
            for name, counts in report.partitions.items()
        ]
    rows.append({"step": "all", **fields_of(report)})
    put_rows(rows, STEP_COLUMNS, as_json=False, nothing="", wide=wide)
    if snapshot.is_over and snapshot.stats.remaining:
        put_text(f"{counted(snapshot.stats.remaining, 'task')} left, but the run has ended.")
    elif snapshot.lacks_seeds and snapshot.lacks_workers:
        put_text("Enqueueing its seeds was interrupted, and no worker is running on it.")
    elif snapshot.lacks_workers:
        left = snapshot.stats.remaining
        put_text(f"{counted(left, 'task')} left, and no worker works on {'it' if left == 1 else 'them'}.")
    elif snapshot.state is ReportedState.PAUSED:
        nobody = "" if snapshot.at_work else ", and no worker is running on it"
        put_text(f"{counted(snapshot.stats.remaining, 'task')} left. The run is paused{nobody}.")
    elif snapshot.stats.remaining:
        put_text(f"{shown(report.rate)} tasks/s, ETA {duration(report.eta_seconds)}")
        if why:
            put_text(f"Tasks wait: {why}")
    for step, left in snapshot.unserved.items():
        put_text(f"{counted(left, 'task')} of {step}, which none of the workers runs: start one that does.")
    if words := file_words(snapshot.files):
        put_text(f"Files: {', '.join(words)}.")
    for line in [*missing_lines(snapshot), *skipped_link_lines(snapshot), *reservation_lines(snapshot)]:
        put_text(line)
    lines = [*hook_lines(snapshot), *running_hook_lines(snapshot), *stats_lines(snapshot)]
    if snapshot.compared_with:
        others = snapshot.compared_with
        put_text(f"Compared with {counted(len(others), 'earlier run')}: {', '.join(others)}")
    for line in [*lines, *outcome_lines(snapshot, queue)]:
        put_text(line)
    if retired:
        put_text(f"{counted(retired, 'API token')} retired because the API rejected them.")
    put_text(f"Store: {size.bytes / 1e6:,.1f} MB ({size.text})")
    sys.stdout.flush()  # the commands to type follow the report, also where both are one file
    if snapshot.lacks_workers:
        say(f"{'Start' if snapshot.state is ReportedState.WAITING else 'Resume'}:  {again}")
    elif snapshot.state is ReportedState.PAUSED:
        say(f"Resume:  {command_on(queue, f'resume {snapshot.run.id}')}")
    elif snapshot.state is ReportedState.PARTIAL and snapshot.stats.remaining:
        say(f"More:  {again}")
    elif hook_lines(snapshot):
        say(f"Call the hook again:  {again}")
    if snapshot.stats.dead:
        say(f"Why tasks died:  {command_on(queue, f'dead list {snapshot.run.id}')}")
    if snapshot.stats.rejected:
        say(f"Why items were rejected:  {command_on(queue, f'rejects {snapshot.run.id}')}")
    if retired:
        say(f"Tokens:  {command_on(queue, f'tokens {snapshot.run.id}')}")


def watch(
    run_id: common.MaybeRunId = None,
    queue: common.Queue = common.DEFAULT_QUEUE,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two updates.", metavar="N")] = 1.0,
    as_json: common.Json = False,
) -> None:
    """Follow a run until it finishes: a line per change, and at least one every ten seconds."""
    with_run(queue, run_id, lambda opened, found: _watch(opened, found, queue, every, as_json))


def runs(
    queue: common.Queue = common.DEFAULT_QUEUE, wide: common.Wide = False, as_json: common.Json = False
) -> None:
    """List runs, newest first.

    A run is running while a live worker works on it, waiting until the first one does, and stopped if tasks
    are left and none does.
    """
    rows = with_existing_queue(queue, _runs)
    if not as_json:
        say_queue(queue)
    put_rows(
        rows,
        RunRow.columns,
        as_json=as_json,
        nothing=f"No runs yet. Start one with: {command_on(queue, 'run FILE --url …')}",
        wide=wide,
        queue=shown_queue(queue),
    )


def workers(
    run_id: common.RunFilter = None,
    everyone: Annotated[
        bool, typer.Option("--all", help="Also list workers that ended or vanished within the last day.")
    ] = False,
    queue: common.Queue = common.DEFAULT_QUEUE,
    wide: common.Wide = False,
    as_json: common.Json = False,
) -> None:
    """List live workers: steps and partitions, tasks held, counts, memory and last heartbeat."""
    live, gone = with_existing_queue(queue, lambda opened: _workers(opened, run_id))
    rows = [*live, *gone] if everyone else live
    on_run = " on this run" if run_id else ""
    if not as_json:
        say_queue(queue)
    put_rows(
        rows,
        WorkerRow.columns,
        as_json=as_json,
        nothing=f"No live workers{on_run}." if gone else f"No workers{on_run} yet.",
        wide=wide,
        queue=shown_queue(queue),
    )
    if as_json:
        return
    if gone and not everyone:
        say(f"{counted(len(gone), 'worker')} of the last day ended or vanished. To list them too, add --all")
    if any(row.state in (WorkerState.LATE, WorkerState.GONE) and row.leased for row in (*live, *gone)):
        say(f"Workers that send no heartbeats hold tasks. To see them, run:  {command_on(queue, 'stale')}")
    if any(row.state == WorkerState.FROZEN for row in rows):
        say("Frozen workers do not respond; their supervisor kills them when their lease expires.")


def line_of(snapshot: "Snapshot") -> str:
    """Return the progress of a run in one line."""
    stats = snapshot.stats
    return (
        f"{snapshot.state:9}  {stats.completed:,} done  {stats.remaining:,} left  "
        f"{counted(stats.items, 'item')}  {stats.dead:,} dead  {snapshot.rate:,.1f}/s  "
        f"ETA {duration(snapshot.eta_seconds)}"
    )


async def _with_tokens(queue: "Queue", run_id: str, url: str) -> "tuple[Snapshot, int, StoreSize, str, str]":
    """Return a run's progress, its retired API tokens, the store's size, how to resume, why tasks wait."""
    snapshot = await _snapshot(queue, run_id)
    unserved = await unserved_steps(queue, snapshot.run.id, snapshot.stats)
    retired = sum(bool(one.budget.retired) for one in await tokens(queue, snapshot.run.id))
    again = await command_to_resume(queue, url, snapshot.run)
    live = [worker for worker in await queue.workers(snapshot.run.id) if is_live(worker)]
    size, why = await queue.size(), why_workers_wait(live)
    return structs.replace(snapshot, unserved=unserved), retired, size, again, why


async def _snapshot(queue: "Queue", run_id: str) -> "Snapshot":
    progress = ProgressReader(queue, run_id, with_hosts=False)
    snapshot = await progress.read(last=True)
    if not snapshot.stats.remaining or snapshot.is_over or not snapshot.at_work:
        return snapshot
    ended = snapshot.stats.completed + snapshot.stats.dead
    rate = await recent_rate(queue, run_id, ended)
    if rate is not None:
        return snapshot.with_rate(rate)
    # A run that has just begun: a rate needs two samples.
    await asyncio.sleep(1.0)
    return await progress.read()


async def _watch(queue: "Queue", run_id: str, url: str, every: float, as_json: bool) -> None:
    progress, last, said_at, said_stop = ProgressReader(queue, run_id), "", 0.0, False
    while True:
        snapshot = await progress.read()
        line = line_of(snapshot)
        if as_json:
            put_json(snapshot.row())
        elif line != last or time.monotonic() - said_at >= SAME_LINE_SECONDS:
            say(line)
            last, said_at = line, time.monotonic()
        if snapshot.is_over:
            return
        if (snapshot.lacks_workers or snapshot.state is ReportedState.PAUSED) and not (said_stop or as_json):
            say(await _why_nothing_happens(queue, snapshot, url))
            said_stop = True
        await asyncio.sleep(every)


async def _why_nothing_happens(queue: "Queue", snapshot: "Snapshot", url: str) -> str:
    """Return what to type so that a run that is paused, or that no worker works on, goes on."""
    if snapshot.state is ReportedState.PAUSED:
        return f"The run is paused. To resume it, run: {command_on(url, f'resume {snapshot.run.id}')}"
    again = await command_to_resume(queue, url, snapshot.run)
    return f"No worker works on the run. To start one, run: {again}"


async def _runs(queue: "Queue") -> list[RunRow]:
    busy = await runs_at_work(queue)
    return [await read_run_row(queue, run, at_work=run.id in busy) for run in await queue.runs()]


async def _workers(queue: "Queue", run_id: str | None) -> tuple[list[WorkerRow], list[WorkerRow]]:
    """Return the rows of the live workers, and of those that are gone since the last day."""
    found = await queue.workers(await id_of(queue, run_id))
    live = [worker_row(worker) for worker in found if is_live(worker)]
    gone = [worker_row(one) for one in found if not is_live(one) and one.last_beat <= GONE_SHOWN]
    silent = (WorkerState.LATE, WorkerState.RUNNING)
    return live, [replace(row, state=WorkerState.GONE) if row.state in silent else row for row in gone]
