"""`shoal partitions`: what is left of each partition of a run, and who has it."""

from typing import TYPE_CHECKING, Any

from shoal.cli import options
from shoal.cli.asking import ask_existing
from shoal.cli.console import counted, duration, put_rows, say
from shoal.fleet.retyping import typed_on

if TYPE_CHECKING:
    from shoal.fleet.partitions import PartitionStatus

COLUMNS = ("partition", "pending", "leased", "done", "owner", "since")
MOST_NAMED = 20


def partitions(
    run_id: options.RunId,
    queue: options.Queue = options.DEFAULT_QUEUE,
    as_json: options.Json = False,
) -> None:
    """Show the partitions of a run: what is left of each, which worker has it, and since when.

    Example: shoal partitions 20260215_120000_ab12
    """
    from shoal.fleet.partitions import partitions as found

    listed = ask_existing(queue, lambda opened: found(opened, run_id))
    rows = [one.as_json() if as_json else row(one) for one in listed]
    put_rows(rows, COLUMNS, as_json=as_json, nothing=f"Run {run_id} has no tasks yet.")
    alone = [one.name or "-" for one in listed if one.is_left_alone]
    if alone and not as_json:
        more = ", …" if len(alone) > MOST_NAMED else ""
        names = ", ".join(alone[:MOST_NAMED])
        say(f"{counted(len(alone), 'partition')} with work and no owner: {names}{more}")
        again = typed_on(queue, f"work SCRAPER --run {run_id} --partitions auto")
        say(f"Workers that share them out: {again}")


def row(status: "PartitionStatus") -> dict[str, Any]:
    """Return a partition as a line of a table."""
    owner = ", ".join(status.owners) or (f"waits for {status.coming}" if status.coming else None)
    return {
        "partition": status.name or None,
        "pending": status.counts.pending + status.counts.delayed,
        "leased": status.counts.leased,
        "done": status.counts.completed,
        "owner": owner,
        "since": duration(status.since.total_seconds()) if status.since is not None else None,
    }
