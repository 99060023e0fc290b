"""The only way to take a worker's leases away from outside."""

from shoal.queue.contract import Queue


async def release_leases(queue: Queue, worker_id: str, *, at_most_once: bool) -> int:
    """Release every lease of a worker, and return how many.

    Of a worker that works at most once nothing is released: its pages may have been requested. Its leases run
    out, which makes dead letters of their tasks.
    """
    return 0 if at_most_once else await queue.abandon(worker_id)
