"""`shoal partitions`: the progress and the owner of each partition of a run."""

from shlex import quote
from typing import Any

from shoal.cli.console import counted, duration, put_rows, say
from shoal.cli.open_queue import with_run
from shoal.cli.options import common
from shoal.fleet.command_hints import command_on
from shoal.fleet.partitions.status import PartitionStatus
from shoal.fleet.partitions.status import partitions as found
from shoal.queue.contract import Queue
from shoal.worker.run_settings import read_note

COLUMNS = ("partition", "pending", "leased", "done", "owner", "since")
MAX_NAMES_SHOWN = 20


def partitions(
    run_id: common.RunId,
    queue: common.Queue = common.DEFAULT_QUEUE,
    wide: common.Wide = False,
    as_json: common.Json = False,
) -> None:
    """Show each partition of a run: pending tasks, owning worker, and how long it has owned it.

    Example: shoal partitions newest
    """

    async def look(opened: "Queue", run_id: str) -> "tuple[list[PartitionStatus], str]":
        stored = (await read_note(opened, run_id)).settings
        return list(await found(opened, run_id)), stored.scraper or (await opened.run(run_id)).scraper

    run_id, (listed, scraper) = with_run(queue, run_id, look)
    rows = [one.as_json() if as_json else row(one) for one in listed]
    put_rows(
        rows, COLUMNS, as_json=as_json, nothing=f"Run {run_id} has no tasks yet.", folds=("owner",), wide=wide
    )
    orphaned = [one.name or "-" for one in listed if one.is_left_alone]
    if orphaned and not as_json:
        more = ", …" if len(orphaned) > MAX_NAMES_SHOWN else ""
        names = ", ".join(orphaned[:MAX_NAMES_SHOWN])
        say(f"{counted(len(orphaned), 'partition')} with pending tasks and no owner: {names}{more}")
        again = command_on(queue, f"work {quote(scraper)} --run {run_id} --partitions auto")
        say(f"Start workers for them: {again}")


def row(status: "PartitionStatus") -> dict[str, Any]:
    """Return a partition as a table row."""
    owner = ", ".join(status.owners) or (f"waits for {status.coming}" if status.coming else None)
    return {
        "partition": status.name or None,
        "pending": status.counts.pending + status.counts.delayed,
        "leased": status.counts.leased,
        "done": status.counts.completed,
        "owner": owner,
        "since": duration(status.since.total_seconds()) if status.since is not None else None,
    }
