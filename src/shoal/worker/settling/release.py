"""Releases the leases of a dead worker from another process; nothing else does."""

from collections.abc import Collection

from shoal.queue.contract import WorkQueue

ONCE = "delivery is at_most_once"


async def release_leases(
    queue: WorkQueue, worker_id: str, *, once: Collection[str] = (), how: str = "died"
) -> int:
    """Release every lease of a dead worker, and return how many.

    Tasks of the steps `once` are not retried, because their requests may have been sent: they become dead
    letters that say how the worker ended.
    """
    return await queue.abandon(worker_id, once=once, reason=f"WorkerDied: the worker {how}, and {ONCE}")
