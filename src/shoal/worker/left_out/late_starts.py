"""Requests that started late, so that those of several workers to a host may be closer than its delay."""

from shoal.core.values import counted
from shoal.queue.contract import SharedNotes
from shoal.worker.left_out.notes import CountNotes

LATE_NOTES = CountNotes("late starts")


def describe_late_starts(count: int) -> str:
    """Return what late starts mean, and what to do about them; empty if there were none."""
    if not count:
        return ""
    return (
        f"{counted(count, 'request')} started late. If several workers shared a host, their requests to it "
        "may have followed each other sooner than its delay: start fewer workers on a machine, or use a "
        "queue that responds faster."
    )


async def late_starts(queue: SharedNotes, run_id: str) -> int:
    """Return how many requests of a run started late so far."""
    return sum(int(note.value) for note in (await LATE_NOTES.read(queue, run_id)).values())


async def write_late_starts(queue: SharedNotes, run_id: str, worker_id: str, count: int) -> None:
    """Record the late starts of one worker."""
    await LATE_NOTES.write(queue, run_id, worker_id, str(count).encode())
