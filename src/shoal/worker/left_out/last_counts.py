"""Workers that have not written their last counts: they still count, or were killed before they could.

What a run has left out is written every few seconds. A worker that is killed loses the counts since then, so
the counts of its run are lower bounds from then on.
"""

from shoal.queue.contract import SharedNotes
from shoal.worker.left_out.notes import CountNotes

COUNTING = CountNotes("counting")
LOST = (
    "A worker was killed before it wrote its last counts: missing pages, links not followed and files may be "
    "more than counted, and pages fewer. Items and tasks are exact."
)


async def mark_counting(queue: SharedNotes, run_id: str, worker_id: str) -> None:
    """Record that a worker counts."""
    await COUNTING.write(queue, run_id, worker_id, b"")


async def mark_counted(queue: SharedNotes, run_id: str, worker_id: str) -> None:
    """Record that a worker has written its last counts."""
    await COUNTING.write(queue, run_id, worker_id, None)


async def counting_workers(queue: SharedNotes, run_id: str) -> set[str]:
    """Return the workers that have not written their last counts."""
    return set(await COUNTING.read(queue, run_id))
