"""Whether the process that enqueues the seeds of a run is still there, and what it reads them from."""

from typing import Any

import msgspec

from shoal.core.model import MINUTE
from shoal.core.procfs import pid_scope
from shoal.fleet.dead_workers import has_ended, new_worker_id
from shoal.queue.contract import Queue, SharedNotes

TOPIC = "runs being seeded"  # a run with a note there has not got all its tasks yet
MAX_AGE = 60 * MINUTE  # of the enqueueing of a process on another machine, which cannot be checked


class Seeder(msgspec.Struct):
    """The process that enqueues the seeds of a run, and the typed sources that it reads."""

    process: str
    pid_scope: str | None = None
    sources: dict[str, Any] | None = None  # by name
    lost: str = ""  # words for a source that cannot be read again


_decode = msgspec.json.Decoder(Seeder).decode


def seeding_value(sources: dict[str, Any] | None = None, lost: str = "") -> bytes:
    """Return the note of this process, for a run whose seeds it enqueues.

    `sources` are typed ones, to be read again if this is interrupted; `lost` names one that cannot be.
    """
    return msgspec.json.encode(Seeder(new_worker_id(), pid_scope(), sources, lost))


async def interrupted_sources(queue: SharedNotes, run_id: str) -> Seeder | None:
    """Return what a run is seeded from, None if it has all its seeds; declared seeds have no sources here."""
    note = (await queue.notes(TOPIC, [run_id])).get(run_id)
    return _decode(note.value) if note else None


async def is_seeding_interrupted(queue: Queue, run_id: str) -> bool:
    """Return whether seeds of a run are missing because the process that enqueued them has ended."""
    note = (await queue.notes(TOPIC, [run_id])).get(run_id)
    if note is None:
        return False
    seeder = _decode(note.value)
    return note.age > MAX_AGE or has_ended(seeder.process, seeder.pid_scope, note.age)
