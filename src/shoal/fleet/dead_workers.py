"""Whether the process behind a worker's id is still running, as far as this machine can tell."""

import os
import secrets
import socket
from datetime import timedelta

from shoal.core.model import Run, WorkerStatus
from shoal.core.procfs import is_process_running, pid_scope
from shoal.queue.contract import Queue
from shoal.worker.process.dead_worker import release_leases
from shoal.worker.process.heartbeat import HEARTBEAT_INTERVAL

MAX_SILENCE = 3 * HEARTBEAT_INTERVAL  # three heartbeats: one may be late


def new_worker_id() -> str:
    """Return an id that is unique across processes and time."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


def is_dead(worker: WorkerStatus) -> bool:
    """Return whether the process was on this machine and is gone; other machines cannot be checked."""
    return has_ended(worker.worker_id, worker.info.get("pid_scope"), worker.last_beat)


def has_ended(worker_id: str, scope: str | None, silent: timedelta) -> bool:
    """Return whether the process with this id, last heard from `silent` ago, is known to have ended.

    A host name is not enough: containers and cloned machines share theirs. If the boot and namespace of the
    process id are unknown, the process must also have been silent for three heartbeats.
    """
    host, _, pid = worker_id.rpartition("-")[0].rpartition("-")
    if host != socket.gethostname() or not pid.isdecimal():
        return False
    if scope is None or pid_scope() is None:
        return silent > MAX_SILENCE and not is_process_running(int(pid))
    return scope == pid_scope() and not is_process_running(int(pid))


async def release_leases_of(queue: Queue, run: Run) -> int:
    """Release the leases of dead workers of this machine, so that no one waits for their reclaim."""
    count = 0
    for worker in await queue.workers(run.id):
        if worker.leased and is_dead(worker) and not _has_outlived_launcher(worker):
            once = [str(step) for step in worker.info.get("at_most_once") or ()]
            count += await release_leases(queue, worker.worker_id, once=once)
    return count


def is_at_most_once(worker: WorkerStatus) -> bool:
    """Return whether a worker's tasks must not be handed out again, by its own heartbeats."""
    return bool(worker.info.get("at_most_once"))


def _has_outlived_launcher(worker: WorkerStatus) -> bool:
    """Return whether a worker has outlived its launcher: then it finishes its running tasks and ends."""
    pid = worker.info.get("pid")
    return isinstance(pid, int) and is_process_running(pid)
