"""The only way to take a dead worker's leases away from outside."""

from collections.abc import Collection

from shoal.queue.contract import Queue

ONCE = "this task is tried once at most"


async def release_leases(
    queue: Queue, worker_id: str, *, once: Collection[str] = (), how: str = "died"
) -> int:
    """End every lease of a worker that is dead, and return how many.

    Tasks of the steps `once` are not handed out again, for their pages may have been requested: they become
    dead letters that say how the worker ended.
    """
    return await queue.abandon(worker_id, once=once, reason=f"WorkerDied: the worker {how}, and {ONCE}")
