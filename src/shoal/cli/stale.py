"""`shoal stale`: leases that nobody may be working on any more."""

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli import options
from shoal.cli.asking import ask_existing
from shoal.cli.console import counted, duration, put_json, put_rows, say
from shoal.core.errors import InvalidSetting
from shoal.core.redact import redacted

if TYPE_CHECKING:
    from shoal.fleet.staleness import Holder
    from shoal.queue.contract import Queue

OLD = "10m"
MOST_COMMANDS = 5  # one for each worker that is alive
COLUMNS = ("worker_id", "run_id", "leases", "oldest", "silent", "why")


def stale(
    run_id: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="The run's id; all of them if left out.")
    ] = None,
    older: Annotated[
        str, typer.Option("--older", help="Leases that are held for longer are shown too.", metavar="TIME")
    ] = OLD,
    worker: Annotated[
        str | None, typer.Option("--worker", help="Of this worker only.", metavar="WORKER")
    ] = None,
    release: Annotated[
        bool, typer.Option("--release", help="Hand back what workers hold that are gone, or this one.")
    ] = False,
    queue: options.Queue = options.DEFAULT_QUEUE,
    as_json: options.Json = False,
) -> None:
    """Show who holds tasks and has gone silent, or has held them for very long.

    Leases run out by themselves, and a worker that lives extends them; --release does not wait for that. What
    is handed back has its attempt back, and a late result of its old holder is refused.

    Example: shoal stale --release
    """
    from shoal.core.values import read_duration

    oldest = read_duration("--older", older)
    found, count = ask_existing(queue, lambda opened: _look(opened, run_id, oldest, worker, release))
    if as_json:
        for holder in found:
            put_json(holder.as_json())
    else:
        put_rows(map(_row, found), COLUMNS, as_json=False, nothing="No lease is stale.")
    # A password is not shown again to whoever looks over the shoulder.
    more = [] if queue == options.DEFAULT_QUEUE else ["--queue", redacted(queue)]
    words = ["shoal", "stale", *([run_id] if run_id else []), "--release"]
    _say_what_next(found, count, [*words, *([] if older == OLD else ["--older", older]), *more], release)


async def _look(
    queue: "Queue", run_id: str | None, older: Any, worker: str | None, release: bool
) -> tuple[list["Holder"], int]:
    from shoal.fleet import staleness

    found = await staleness.stale_holders(queue, run_id, older=older)
    if worker:
        found = [holder for holder in found if holder.worker_id == worker]
        await _refuse_unknown(queue, run_id, worker, found)
    if not release:
        return found, 0
    meant = [holder for holder in found if holder.is_gone or worker]
    return found, await staleness.release(queue, meant)


async def _refuse_unknown(queue: "Queue", run_id: str | None, worker: str, found: list["Holder"]) -> None:
    from shoal.core.values import hint

    known = [one.worker_id for one in await queue.workers(run_id)]
    if not found and worker not in known:
        raise InvalidSetting("--worker", f"is not known here: {worker!r}. {hint(worker, known or ['-'])}")


def _row(holder: "Holder") -> dict[str, Any]:
    row = holder.as_json()
    return row | {"oldest": duration(row["oldest_seconds"]), "silent": duration(row["silent_seconds"])}


def _say_what_next(found: list["Holder"], count: int, command: list[str], release: bool) -> None:
    """Say what was done, and the commands that do what is left; each of them works as it is printed."""
    alive = [holder for holder in found if not holder.is_gone and not holder.at_most_once]
    gone = [holder for holder in found if holder.is_gone and not holder.at_most_once]
    kept = sum(len(holder.tasks) for holder in found if holder.at_most_once)
    if release:
        say(f"Handed back {counted(count, 'lease')}.")
    elif gone:
        say(f"Hand them back:  {shlex.join(command)}")
    if kept:
        say(f"{counted(kept, 'task')} at most once: when the leases are over, they become dead letters.")
    if alive and not (release and count):
        verb = "is" if len(alive) == 1 else "are"
        say(f"{counted(len(alive), 'worker')} {verb} alive and may be busy; to take tasks away:")
        for holder in alive[:MOST_COMMANDS]:
            say(f"  {shlex.join([*command, '--worker', holder.worker_id])}")
