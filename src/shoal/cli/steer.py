"""Steering a run: pause, resume, cancel, purge."""

from typing import Annotated

import typer

from shoal.cli import options
from shoal.cli.asking import ask_existing
from shoal.cli.console import put_json, say
from shoal.fleet.retyping import typed_on


def pause(
    run_id: options.RunId, queue: options.Queue = options.DEFAULT_QUEUE, as_json: options.Json = False
) -> None:
    """Hand out no task of a run until it is resumed."""
    _steer(queue, run_id, "pause", as_json, f"Paused. Go on with: {typed_on(queue, f'resume {run_id}')}")


def resume(
    run_id: options.RunId, queue: options.Queue = options.DEFAULT_QUEUE, as_json: options.Json = False
) -> None:
    """Let a paused run go on."""
    _steer(queue, run_id, "resume", as_json, "Going on; workers notice within a second.")


def cancel(
    run_id: options.RunId, queue: options.Queue = options.DEFAULT_QUEUE, as_json: options.Json = False
) -> None:
    """End a run for good: nothing of it is handed out again, nothing is deleted."""
    again = typed_on(queue, f"export {run_id} --to items.jsonl")
    _steer(queue, run_id, "cancel", as_json, f"Cancelled. Its items stay: {again}")


def purge(
    run_id: options.RunId,
    queue: options.Queue = options.DEFAULT_QUEUE,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a run with all its tasks, items and dead letters."""
    if not yes:
        typer.confirm(f"Delete run {run_id} with all its items?", abort=True, err=True)
    ask_existing(queue, lambda opened: opened.purge(run_id))
    say(f"Deleted run {run_id}.")


def _steer(url: str, run_id: str, verb: str, as_json: bool, words: str) -> None:
    run = ask_existing(url, lambda queue: getattr(queue, verb)(run_id))
    if as_json:
        put_json({"run_id": run.id, "state": run.state})
    else:
        say(words)
