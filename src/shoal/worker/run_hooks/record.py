"""The record of a run's hooks in the queue: which worker calls them, with which token, and how they ended."""

import os
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

import msgspec

from shoal.core.model import Note
from shoal.queue.contract import SharedNotes

START, FINISH = "on_run_start", "on_run_finish"
SEEDING_TOPIC = "runs being seeded"  # a run with a note there has not got all its tasks yet
HOLD_TIME = timedelta(seconds=15)  # without a renewal; then another worker calls the hooks


class HookState(StrEnum):
    """How far the hooks of one kind are."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    OPEN = "open"  # interrupted, or called at an end after which the run was resumed


class HookRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The hooks of one kind; `token` rises by one each time that a worker begins to call them."""

    state: HookState
    token: int
    worker: str
    pid: int = 0
    pid_scope: str | None = None
    hook: str = ""  # that failed
    error: str = ""

    @property
    def has_failed(self) -> bool:
        """Whether the last call failed, and none has begun since."""
        return self.state is HookState.FAILED

    def as_json(self) -> dict[str, Any]:
        """Return the record with the field names of every report."""
        return {
            "state": str(self.state),
            "token": self.token,
            "worker": self.worker,
            "error": f"{self.hook}: {self.error}" if self.error else None,
        }


@dataclass(frozen=True, slots=True)
class HookNote:
    """A record as it was read, with the stamp that a swap of it needs."""

    record: HookRecord
    note: Note


def topic_of(run_id: str) -> str:
    """Return the topic of a run's records."""
    return f"hooks of run {run_id}"


async def find_record(queue: SharedNotes, run_id: str, kind: str) -> HookNote | None:
    """Return the record of one kind of hooks."""
    note = (await queue.notes(topic_of(run_id), [kind])).get(kind)
    return HookNote(decode_record(note.value), note) if note else None


async def hook_records(queue: SharedNotes, run_id: str) -> dict[str, HookRecord]:
    """Return the records of a run's hooks by kind."""
    notes = await queue.notes(topic_of(run_id))
    return {kind: decode_record(notes[kind].value) for kind in (START, FINISH) if kind in notes}


async def forget_hook_records(queue: SharedNotes, run_id: str) -> None:
    """Remove the records of a run."""
    await queue.write_notes(topic_of(run_id), {START: None, FINISH: None})


def new_record(worker_id: str, scope: str | None, token: int) -> HookRecord:
    """Return the record of hooks that this process begins to call."""
    return HookRecord(
        state=HookState.RUNNING, token=token, worker=worker_id, pid=os.getpid(), pid_scope=scope
    )


decode_record = msgspec.json.Decoder(HookRecord).decode
