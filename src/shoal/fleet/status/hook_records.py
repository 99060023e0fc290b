"""The record of a run's hooks in the queue: which process calls them, and how they ended."""

from datetime import timedelta
from enum import StrEnum

import msgspec

from shoal.core.model import Note
from shoal.fleet.dead_workers import has_ended
from shoal.queue.contract import SharedNotes

START, FINISH = "on_run_start", "on_run_finish"


class HookState(StrEnum):
    """How far the hooks of one kind are."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"  # stopped by the user, or their process has ended
    OPEN = "open"  # called at an end after which the run was resumed


class HookRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The hooks of one kind; `token` rises by one each time that a process begins to call them."""

    state: HookState
    token: int
    process: str
    pid_scope: str | None = None
    limit: timedelta = timedelta()  # in which all calls have ended
    hook: str = ""  # that is called, or that failed
    error: str = ""

    @property
    def has_failed(self) -> bool:
        """Whether the last call failed or was interrupted, and none has begun since."""
        return self.state in (HookState.FAILED, HookState.INTERRUPTED)

    @property
    def is_running(self) -> bool:
        """Whether a process calls the hooks at this moment."""
        return self.state is HookState.RUNNING

    def ended(self, state: HookState, error: str = "") -> "HookRecord":
        """Return the record of hooks whose call has ended."""
        return msgspec.structs.replace(self, state=state, error=error)


_decode = msgspec.json.Decoder(HookRecord).decode


def topic_of(run_id: str) -> str:
    """Return the topic of a run's records."""
    return f"hooks of run {run_id}"


def read_record(note: Note) -> HookRecord:
    """Return a record as it is now: hooks do not run without their process, nor beyond their limit."""
    record = _decode(note.value)
    if record.is_running and has_ended(record.process, record.pid_scope, note.age):
        return record.ended(HookState.INTERRUPTED, "its process ended during the call")
    if record.is_running and note.age >= record.limit:
        return record.ended(HookState.INTERRUPTED, "its process has not reported an end")
    return record


async def hook_records(queue: SharedNotes, run_id: str) -> dict[str, HookRecord]:
    """Return the records of a run's hooks by kind."""
    notes = await queue.notes(topic_of(run_id))
    return {kind: read_record(notes[kind]) for kind in (START, FINISH) if kind in notes}


async def forget_hook_records(queue: SharedNotes, run_id: str) -> None:
    """Remove the records of a run."""
    await queue.write_notes(topic_of(run_id), {START: None, FINISH: None})
