"""Whether the process that enqueues the declared seeds of a run is still there."""

import msgspec

from shoal.core.model import MINUTE
from shoal.fleet.dead_workers import has_ended, new_worker_id
from shoal.queue.contract import Queue
from shoal.worker.process.procfs import pid_scope

TOPIC = "runs being seeded"
MAX_AGE = 60 * MINUTE  # of the enqueueing of a process on another machine, which cannot be checked


class _Seeder(msgspec.Struct):
    process: str
    pid_scope: str | None = None


def seeding_value() -> bytes:
    """Return the note of this process, for a run whose seeds it enqueues."""
    return msgspec.json.encode(_Seeder(new_worker_id(), pid_scope()))


async def is_seeding_interrupted(queue: Queue, run_id: str) -> bool:
    """Return whether seeds of a run are missing because the process that enqueued them has ended."""
    note = (await queue.notes(TOPIC, [run_id])).get(run_id)
    if note is None:
        return False
    try:
        seeder = msgspec.json.decode(note.value, type=_Seeder)
    except msgspec.MsgspecError:
        return True  # of an earlier version
    return note.age > MAX_AGE or has_ended(seeder.process, seeder.pid_scope, note.age)
