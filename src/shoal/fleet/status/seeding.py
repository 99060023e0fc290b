"""Whether the process that enqueues the seeds of a run is still there, and what it reads them from."""

from typing import Any, NamedTuple

import msgspec

from shoal.core.model import MINUTE
from shoal.fleet.dead_workers import has_ended, new_worker_id
from shoal.queue.contract import Queue, SharedNotes
from shoal.worker.process.procfs import pid_scope

TOPIC = "runs being seeded"  # a run with a note there has not got all its tasks yet
MAX_AGE = 60 * MINUTE  # of the enqueueing of a process on another machine, which cannot be checked


class _Seeder(msgspec.Struct):
    process: str
    pid_scope: str | None = None
    sources: dict[str, Any] | None = None
    lost: str = ""


class InterruptedSources(NamedTuple):
    """The typed sources of a run that were not read to their end: by name, or words for what cannot be."""

    sources: dict[str, Any] | None
    lost: str


def seeding_value(sources: dict[str, Any] | None = None, lost: str = "") -> bytes:
    """Return the note of this process, for a run whose seeds it enqueues.

    `sources` are typed ones, to be read again if this is interrupted; `lost` names one that cannot be.
    """
    return msgspec.json.encode(_Seeder(new_worker_id(), pid_scope(), sources, lost))


async def interrupted_sources(queue: SharedNotes, run_id: str) -> InterruptedSources | None:
    """Return what a run is seeded from, None if it has all its seeds; declared seeds have no sources here."""
    note = (await queue.notes(TOPIC, [run_id])).get(run_id)
    if note is None:
        return None
    try:
        seeder = msgspec.json.decode(note.value, type=_Seeder)
    except msgspec.MsgspecError:
        return InterruptedSources(None, "")  # of an earlier version
    return InterruptedSources(seeder.sources, seeder.lost)


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
