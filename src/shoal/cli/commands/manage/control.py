"""`shoal pause`, `resume`, `cancel` and `purge`."""

from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.console import put_json, say
from shoal.cli.options import common
from shoal.cli.session import with_existing_queue
from shoal.fleet.hints import command_on

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shoal.core.model import Run
    from shoal.fleet.status.progress import Snapshot
    from shoal.queue.contract import Queue


def pause(
    run_id: common.RunId, queue: common.Queue = common.DEFAULT_QUEUE, as_json: common.Json = False
) -> None:
    """Pause a run: workers get no more of its tasks until you resume it."""
    words = f"Paused. To resume, run: {command_on(queue, f'resume {run_id}')}"
    _steer(queue, lambda opened: opened.pause(run_id), as_json, lambda run: words)


def resume(
    run_id: common.RunId, queue: common.Queue = common.DEFAULT_QUEUE, as_json: common.Json = False
) -> None:
    """Resume a run that was paused, or that ended at a limit with tasks left."""
    from shoal.fleet.run.settings import command_to_resume

    async def look(opened: "Queue") -> "tuple[Run, str]":
        run = await opened.run(run_id)
        return run, await command_to_resume(opened, queue, run)

    before, more = with_existing_queue(queue, look)
    words = "Resumed; workers notice within a second."
    if before.reason:
        words = f"Resumed. It had ended: {before.reason}. To start workers, run: {more}"
    _steer(queue, lambda opened: opened.resume(run_id), as_json, lambda run: words)


def cancel(
    run_id: common.RunId, queue: common.Queue = common.DEFAULT_QUEUE, as_json: common.Json = False
) -> None:
    """End a run for good: workers get no more of its tasks, and its results are kept."""
    from shoal.fleet.run import lifecycle

    again = command_on(queue, f"export {run_id} --to items.jsonl")

    def words(run: "Run") -> str:
        if run.state.has_ended:
            return f"Cancelled. To export its items, run: {again}"
        return f"Run {run_id} has already finished. To export its items, run: {again}"

    _steer(queue, lambda opened: lifecycle.cancel(opened, run_id), as_json, words)


def purge(
    run_id: common.RunId,
    queue: common.Queue = common.DEFAULT_QUEUE,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete a run with all its tasks, items and dead letters. This cannot be undone."""
    if not yes:
        typer.confirm(f"Delete run {run_id} and all its items?", abort=True, err=True)
    from shoal.fleet.run import lifecycle

    with_existing_queue(queue, lambda opened: lifecycle.purge(opened, run_id))
    say(f"Deleted run {run_id}.")


def _steer(
    url: str, steer: "Callable[[Queue], Awaitable[Run]]", as_json: bool, words: "Callable[[Run], str]"
) -> None:
    from shoal.fleet.status.progress import Snapshot

    async def steered(queue: "Queue") -> "Snapshot":
        run = await steer(queue)
        return Snapshot(run, await queue.stats(run.id), 0, 0.0, None)

    snapshot = with_existing_queue(url, steered)
    if as_json:
        put_json({"run_id": snapshot.run.id, "state": snapshot.state})
    else:
        say(words(snapshot.run))
