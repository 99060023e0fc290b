"""Which workers are alive, and which runs have workers."""

from datetime import timedelta

from shoal.core.model import INVALID_SEED, MINUTE, SEED_STEP, Stats, WorkerState, WorkerStatus
from shoal.fleet.dead_workers import MAX_SILENCE, is_dead
from shoal.queue.contract import Queue, QueueReports
from shoal.worker.left_out import LeftOut, read_left_out

ENDINGS = (WorkerState.ENDED, WorkerState.DIED)
FINAL_STATES = (*ENDINGS, WorkerState.FINISHED)  # after which no heartbeat follows
RECENT = MINUTE  # a worker that has been silent for longer counts as gone
GONE_SHOWN = timedelta(days=1)  # how long a gone worker can be listed


def state_of(worker: WorkerStatus) -> str:
    """Return a worker's last reported state; `late` if its heartbeats are missing."""
    if worker.state not in FINAL_STATES and worker.last_beat > MAX_SILENCE:
        return WorkerState.LATE
    return worker.state


def is_live(worker: WorkerStatus) -> bool:
    """Return whether a worker has not ended, died or been silent for long; it may be late."""
    return worker.state not in FINAL_STATES and worker.last_beat <= RECENT and not is_dead(worker)


def is_at_work(worker: WorkerStatus) -> bool:
    """Return whether a worker is alive, on time, and takes tasks: a coordinator takes none."""
    return is_live(worker) and worker.last_beat <= MAX_SILENCE and not worker.is_coordinator


async def unserved_steps(queue: QueueReports, run_id: str, stats: Stats) -> dict[str, int]:
    """Return the tasks left by step, of the steps that none of the run's workers runs, if it has workers."""
    if not stats.remaining:
        return {}
    served = [worker.info.get("steps") for worker in await queue.workers(run_id) if is_at_work(worker)]
    if not served or None in served:  # one without names runs every step
        return {}
    known = {SEED_STEP, INVALID_SEED}.union(*filter(None, served))  # those of the first step name none
    left = {name: counts.remaining for name, counts in stats.steps.items() if name not in known}
    return {name: count for name, count in left.items() if count}


async def runs_at_work(queue: QueueReports) -> set[str]:
    """Return the ids of the runs that have workers."""
    return {worker.run_id for worker in await queue.workers() if is_at_work(worker)}


async def has_lost_counts(queue: Queue, run_id: str, left_out: LeftOut | None = None) -> bool:
    """Return whether a worker is gone without its last counts: those of the run are lower bounds."""
    left_out = left_out or await read_left_out(queue, run_id)
    if not (counting := left_out.counting):
        return False
    live = {worker.worker_id for worker in await queue.workers(run_id) if is_live(worker)}
    return not counting <= live


async def has_workers(queue: QueueReports, run_id: str) -> bool:
    """Return whether a run has workers."""
    return any(is_at_work(worker) for worker in await queue.workers(run_id))
