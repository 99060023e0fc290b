"""Whether the process behind a worker's id is still there, as far as this machine can tell."""

import os
import secrets
import socket
from datetime import timedelta

from shoal.core.model import Run, WorkerStatus
from shoal.queue.contract import Queue
from shoal.worker.keeper import BEAT_EVERY
from shoal.worker.procfs import ENDED, pid_scope, state_of_process
from shoal.worker.release import release_leases

MISSED = timedelta(seconds=3 * BEAT_EVERY)  # three heartbeats: one may be late


def new_worker_id() -> str:
    """Return an id that no other process has or ever had."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


def whereabouts() -> dict[str, str | None]:
    """Return what a heartbeat says so that others can tell whether its process is gone."""
    return {"pid_scope": pid_scope()}


def is_dead(worker: WorkerStatus) -> bool:
    """Say whether the process was on this machine and is gone; of other machines nothing is known."""
    return has_ended(worker.worker_id, worker.info.get("pid_scope"), worker.last_beat)


def has_ended(worker_id: str, scope: str | None, silent: timedelta) -> bool:
    """Say whether the process with this id, which was heard this long ago, is known to have ended.

    A host name is not enough, for containers and cloned machines share theirs. Where it is not known in which
    boot and namespace the process id is valid, the process must have been silent for three heartbeats too.
    """
    host, _, pid = worker_id.rpartition("-")[0].rpartition("-")
    if host != socket.gethostname() or not pid.isdecimal():
        return False
    if scope is None or pid_scope() is None:
        return silent > MISSED and not _is_there(int(pid))
    return scope == pid_scope() and not _is_there(int(pid))


async def hand_back(queue: Queue, run: Run) -> int:
    """Hand back what dead workers of this machine held, so that nobody waits for their leases to run out."""
    count = 0
    for worker in await queue.workers(run.id):
        if worker.leased and is_dead(worker) and not _lives_on(worker):
            once = once_steps_of(worker)
            if once is not None:
                count += await release_leases(queue, worker.worker_id, once=once)
    return count


def once_steps_of(worker: WorkerStatus) -> list[str] | None:
    """Return the steps whose tasks a worker tries once at most, by its heartbeats; None if they name none.

    Those of earlier versions say only that there are such steps: what such a worker holds must run out.
    """
    said = worker.info.get("at_most_once")
    return None if said is True else [str(step) for step in said or ()]


def is_at_most_once(worker: WorkerStatus) -> bool:
    """Say whether what a worker holds must not be handed out again, by its own heartbeats."""
    return bool(worker.info.get("at_most_once"))


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
    return state_of_process(pid) not in ENDED
