"""`shoal partitions`: the progress and the owner of each partition of a run."""

from shlex import quote

from shoal.cli.console import counted, put_rows, say
from shoal.cli.open_queue import with_run
from shoal.cli.options import common
from shoal.fleet.command_hints import command_on
from shoal.fleet.status.partitions import PartitionStatus
from shoal.fleet.status.partitions import partitions as found
from shoal.fleet.status.rows import PartitionRow
from shoal.queue.contract import Queue
from shoal.worker.run_settings import read_note

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
    rows, nothing = [one.row() for one in listed], f"Run {run_id} has no tasks yet."
    put_rows(rows, PartitionRow.columns, as_json=as_json, nothing=nothing, wide=wide)
    orphaned = [one.name or "-" for one in listed if one.is_left_alone]
    if orphaned and not as_json:
        more = ", …" if len(orphaned) > MAX_NAMES_SHOWN else ""
        names = ", ".join(orphaned[:MAX_NAMES_SHOWN])
        say(f"{counted(len(orphaned), 'partition')} with pending tasks and no owner: {names}{more}")
        again = command_on(queue, f"work {quote(scraper)} --run {run_id} --partitions auto")
        say(f"Start workers for them: {again}")
