"""Steering a run: pause, resume, cancel, purge."""

from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import options
from shoal.cli.asking import ask_existing
from shoal.cli.console import put_json, say
from shoal.fleet.retyping import typed_on

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shoal.core.model import Run
    from shoal.fleet.progress import Snapshot
    from shoal.queue.contract import Queue


def pause(
    run_id: options.RunId, queue: options.Queue = options.DEFAULT_QUEUE, as_json: options.Json = False
) -> None:
    """Hand out no task of a run until it is resumed."""
    words = f"Paused. Go on with: {typed_on(queue, f'resume {run_id}')}"
    _steer(queue, lambda opened: opened.pause(run_id), as_json, lambda run: words)


def resume(
    run_id: options.RunId, queue: options.Queue = options.DEFAULT_QUEUE, as_json: options.Json = False
) -> None:
    """Let a run go on that was paused, or that ended at a limit with tasks left."""
    before = ask_existing(queue, lambda opened: opened.run(run_id))
    words = "Going on; workers notice within a second."
    if before.reason:
        more = typed_on(queue, f"run FILE --resume {run_id} --set max_pages=N")
        words = f"Going on. It had ended: {before.reason}. For workers with a higher limit: {more}"
    _steer(queue, lambda opened: opened.resume(run_id), as_json, lambda run: words)


def cancel(
    run_id: options.RunId, queue: options.Queue = options.DEFAULT_QUEUE, as_json: options.Json = False
) -> None:
    """End a run for good: nothing of it is handed out again, nothing is deleted."""
    from shoal.fleet import lifecycle

    again = typed_on(queue, f"export {run_id} --to items.jsonl")

    def words(run: "Run") -> str:
        if run.state.has_ended:
            return f"Cancelled. Its items stay: {again}"
        return f"Run {run_id} has finished; there is nothing to cancel. Its items: {again}"

    _steer(queue, lambda opened: lifecycle.cancel(opened, run_id), as_json, words)


def purge(
    run_id: options.RunId,
    queue: options.Queue = options.DEFAULT_QUEUE,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a run with all its tasks, items and dead letters."""
    if not yes:
        typer.confirm(f"Delete run {run_id} with all its items?", abort=True, err=True)
    from shoal.fleet import lifecycle

    ask_existing(queue, lambda opened: lifecycle.purge(opened, run_id))
    say(f"Deleted run {run_id}.")


def _steer(
    url: str, steer: "Callable[[Queue], Awaitable[Run]]", as_json: bool, words: "Callable[[Run], str]"
) -> None:
    from shoal.fleet.progress import Snapshot

    async def steered(queue: "Queue") -> "Snapshot":
        run = await steer(queue)
        return Snapshot(run, await queue.stats(run.id), 0, 0.0, None)

    snapshot = ask_existing(url, steered)
    if as_json:
        put_json({"run_id": snapshot.run.id, "state": snapshot.state})
    else:
        say(words(snapshot.run))
