"""`shoal pause`, `resume` and `cancel`."""

from collections.abc import Awaitable, Callable

from shoal.cli.console import put_json, say
from shoal.cli.open_queue import with_run
from shoal.cli.options import common
from shoal.core.model import Run, RunState
from shoal.fleet.command_hints import command_on, export_command
from shoal.fleet.run import lifecycle
from shoal.fleet.run.settings import NO_TASKS_LEFT, next_step
from shoal.fleet.status.progress import Snapshot
from shoal.queue.contract import Queue


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
    _steer(queue, run_id, lambda opened, found: opened.resume(found), as_json, lambda run: words)


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
