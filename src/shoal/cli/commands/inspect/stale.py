"""`shoal stale`: leases whose worker may have stopped."""

from typing import Annotated, Any

import typer

from shoal.cli.console import counted, put_rows, say
from shoal.cli.open_queue import id_of, with_existing_queue
from shoal.cli.options import common
from shoal.core.errors import InvalidSetting
from shoal.core.values import hint, read_duration
from shoal.fleet.command_hints import joined, queue_option
from shoal.fleet.status import stale as staleness
from shoal.fleet.status.rows import StaleRow
from shoal.fleet.status.stale import StaleHolder
from shoal.queue.contract import Queue, QueueReports

DEFAULT_AGE = "10m"
MAX_COMMANDS_SHOWN = 5  # one for each live worker


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
