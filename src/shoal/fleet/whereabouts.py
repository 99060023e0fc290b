"""Whether the process behind a worker's id is still there, as far as this machine can tell."""

import os
import secrets
import socket

from shoal.core.model import Run
from shoal.queue.contract import Queue


def new_worker_id() -> str:
    """Return an id that no other process has or ever had."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


def is_dead(worker_id: str) -> bool:
    """Say whether the process was on this machine and is gone; of other machines nothing is known."""
    host, _, rest = worker_id.rpartition("-")[0].rpartition("-")
    if host != socket.gethostname() or not rest.isdecimal():
        return False
    try:
        os.kill(int(rest), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


async def hand_back(queue: Queue, run: Run) -> int:
    """Hand back what dead workers of this machine held, so that nobody waits for their leases to run out."""
    count = 0
    for worker in await queue.workers(run.id):
        if worker.leased and is_dead(worker.worker_id):
            count += await queue.abandon(worker.worker_id)
    return count
