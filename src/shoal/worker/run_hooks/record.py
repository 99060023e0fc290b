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
MAX_FAILURES = 3  # calls in a row in the whole fleet that failed or whose worker died; then there is none
REST_TIME = timedelta(minutes=10)  # after the last of them; then the count begins again


class HookState(StrEnum):
    """How far the hooks of one kind are."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"  # stopped by the user, or its worker has ended
    OPEN = "open"  # called at an end after which the run was resumed


class HookRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The hooks of one kind; `token` rises by one each time that a worker begins to call them."""

    state: HookState
    token: int
    worker: str
    pid: int = 0
    pid_scope: str | None = None
    launch: str = ""  # of the worker: those that were started together have one
    deaths: int = 0  # workers in a row that ended during the call, before this one
    failures: int = 0  # calls in a row that failed or whose worker ended, this one too if it has failed
    hook: str = ""  # that is called, or that failed
    error: str = ""

    @property
    def has_failed(self) -> bool:
        """Whether the last call failed or was interrupted, and none has begun since."""
        return self.state in (HookState.FAILED, HookState.INTERRUPTED)

    @property
    def is_running(self) -> bool:
        """Whether a worker calls the hooks at this moment."""
        return self.state is HookState.RUNNING

    def as_json(self) -> dict[str, Any]:
        """Return the record with the field names of every report."""
        return {
            "state": str(self.state),
            "token": self.token,
            "worker": self.worker,
            "hook": self.hook or None,
            "error": f"{self.hook}: {self.error}" if self.error else None,
        }


@dataclass(frozen=True, slots=True)
class HookNote:
    """A record as it was read, with the stamp that a swap of it needs."""

    record: HookRecord
    note: Note

    @property
    def is_exhausted(self) -> bool:
        """Whether the hooks have failed as often as they may for now."""
        record = self.record
        has_failed = record.state is HookState.FAILED and record.failures >= MAX_FAILURES
        return has_failed and self.note.age < REST_TIME


def topic_of(run_id: str) -> str:
    """Return the topic of a run's records."""
    return f"hooks of run {run_id}"


async def find_record(queue: SharedNotes, run_id: str, kind: str) -> HookNote | None:
    """Return the record of one kind of hooks."""
    note = (await queue.notes(topic_of(run_id), [kind])).get(kind)
    return HookNote(decode_record(note.value), note) if note else None


async def hook_records(queue: SharedNotes, run_id: str) -> dict[str, HookRecord]:
    """Return the records of a run's hooks by kind, for a report: hooks without a living worker do not run."""
    notes = await queue.notes(topic_of(run_id))
    return {kind: _reported(notes[kind]) for kind in (START, FINISH) if kind in notes}


def _reported(note: Note) -> HookRecord:
    record = decode_record(note.value)
    is_silent = record.is_running and note.age >= HOLD_TIME
    return interrupted(record, "its worker ended during the call") if is_silent else record


def interrupted(record: HookRecord, why: str) -> HookRecord:
    """Return the record of hooks whose call did not end."""
    return msgspec.structs.replace(record, state=HookState.INTERRUPTED, error=why)


def next_record(before: HookRecord | None, worker: HookRecord) -> HookRecord:
    """Return the record that this worker writes to call the hooks: its own, or that they have failed.

    Without the second, hooks that end their process would be called as long as workers are started. Hooks
    that have failed as often as they may are only called after a rest, so their count begins again.
    """
    if before is None:
        return worker
    deaths = before.deaths + 1 if before.is_running else 0
    failures = before.failures + 1 if before.is_running else before.failures % MAX_FAILURES
    taken = msgspec.structs.replace(worker, token=before.token + 1, deaths=deaths, failures=failures)
    if failures < MAX_FAILURES:
        return taken
    times = f", {deaths} times in a row" if deaths > 1 else ""
    error = f"its worker process ended during the call{times}"
    return msgspec.structs.replace(
        taken, state=HookState.FAILED, worker=before.worker, hook=before.hook, error=error
    )


async def allow_calls(queue: SharedNotes, run_id: str) -> None:
    """Let hooks that have failed be called as often as new ones: a person has resumed the run.

    A failure of this moment counts on: the launches of many machines may resume a run together.
    """
    for kind in (START, FINISH):
        found = await find_record(queue, run_id, kind)
        if found and found.record.state is HookState.FAILED and found.note.age >= HOLD_TIME:
            record = msgspec.structs.replace(found.record, failures=0)
            await queue.swap_note(topic_of(run_id), kind, msgspec.json.encode(record), stamp=found.note.stamp)


async def forget_hook_records(queue: SharedNotes, run_id: str) -> None:
    """Remove the records of a run."""
    await queue.write_notes(topic_of(run_id), {START: None, FINISH: None})


def new_record(worker_id: str, scope: str | None, launch: str, hook: str) -> HookRecord:
    """Return the record of hooks that this process is the first to call, beginning with `hook`."""
    return HookRecord(
        state=HookState.RUNNING,
        token=1,
        worker=worker_id,
        pid=os.getpid(),
        pid_scope=scope,
        launch=launch,
        hook=hook,
    )


decode_record = msgspec.json.Decoder(HookRecord).decode
