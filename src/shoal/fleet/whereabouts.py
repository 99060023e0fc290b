"""Whether the process behind a worker's id is still there, as far as this machine can tell."""

import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path

from shoal.core.model import Run, WorkerStatus
from shoal.queue.contract import Queue


def new_worker_id() -> str:
    """Return an id that no other process has or ever had."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


def is_dead(worker_id: str) -> bool:
    """Say whether the process was on this machine and is gone; of other machines nothing is known."""
    host, _, rest = worker_id.rpartition("-")[0].rpartition("-")
    if host != socket.gethostname() or not rest.isdecimal():
        return False
    return not _is_there(int(rest))


async def hand_back(queue: Queue, run: Run) -> int:
    """Hand back what dead workers of this machine held, so that nobody waits for their leases to run out."""
    count = 0
    for worker in await queue.workers(run.id):
        if worker.leased and is_dead(worker.worker_id) and not _lives_on(worker):
            count += await queue.abandon(worker.worker_id)
    return count


def _lives_on(worker: WorkerStatus) -> bool:
    """Say whether a worker has outlived its launcher: then it finishes what it has begun, and ends."""
    pid = worker.info.get("pid")
    return isinstance(pid, int) and _is_there(pid)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_unburied(pid)


def _is_unburied(pid: int) -> bool:
    """Say whether a process has ended, and only its parent has not asked how: in a container nobody may."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] in "ZX"
    return False
