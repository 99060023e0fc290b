"""What callers pass to the verbs of a queue, checked once before a backend sees it."""

import re
import secrets
from collections.abc import (
    AsyncIterable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple, TypedDict

import msgspec
from msgspec.structs import replace

from shoal.core.commands import shoal_command
from shoal.core.errors import InvalidNote, InvalidSetting, InvalidTask, RunConflict
from shoal.core.model import (
    MINUTE,
    NOTHING,
    ZERO,
    DeadLetter,
    Note,
    Run,
    RunSettings,
    RunState,
    Task,
)
from shoal.core.pacing import MAX_LEAD
from shoal.core.text import shorten

Tasks = Iterable[Task] | AsyncIterable[Task]
OnInvalid = Callable[[int, InvalidTask], None]
Fence = tuple[str, str, int]  # topic, key and stamp of a note
GONE = Note(value=b"", stamp=0, age=ZERO)  # the result of a swap that removed a note; no note has this stamp
DEFAULT_LEASE = 5 * MINUTE
MAX_TOPIC, MAX_NOTE_KEY = 200, 8192  # characters
MAX_NOTES = 64 << 20  # bytes of the values of one call, which are sent and stored together
MAX_TTL = timedelta(days=36_500)

# New state of a run -> the states from which it may be entered.
STEERED_FROM: Mapping[RunState, tuple[RunState, ...]] = {
    RunState.PAUSED: (RunState.RUNNING,),
    RunState.RUNNING: (RunState.PAUSED, RunState.PARTIAL),
    RunState.PARTIAL: (RunState.RUNNING, RunState.PAUSED),
    RunState.CANCELLED: (RunState.RUNNING, RunState.PAUSED, RunState.PARTIAL),
}

_RUN_ID = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_TASK_ID = re.compile(r"[0-9a-f]{32}")


class ClaimRequest(NamedTuple):
    """A claim: `limit` tasks of a run for a worker, of some steps and partitions or of all (None)."""

    worker_id: str
    run_id: str
    limit: int
    lease: timedelta
    steps: Sequence[str] | None = None
    partitions: Sequence[str] | None = None
    fence: Fence | None = None
    lead: timedelta = ZERO


class WorkerBeat(NamedTuple):
    """A heartbeat of a worker: its state, and further values to show."""

    worker_id: str
    state: str = "running"
    info: Mapping[str, Any] = NOTHING


class RunLimits(TypedDict, total=False):
    """The settings of a run that may be changed: see `RunSettings`."""

    host_delay: timedelta
    per_host: int
    max_attempts: int


class LetterEdit(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter as it was read, its new task, and who changed it; `note` is the entry in its history."""

    letter: DeadLetter
    task: Task
    by: str
    note: str


class EditFate(Enum):
    """The result of an edit: only EDITED means that something changed."""

    EDITED = "edited"
    DUPLICATE = "duplicate"  # the run already has a task with the new key
    CHANGED = "changed"  # it was replayed, dropped or edited since it was read


def new_run_id(now: datetime) -> str:
    """Return a run id that sorts by time: `20260215_120000_ab12`."""
    return f"{now:%Y%m%d_%H%M%S}_{secrets.token_hex(2)}"


def check_run(scraper: str, settings: RunSettings, run_id: str | None) -> None:
    """Raise InvalidSetting unless a run can be created with these."""
    if not scraper or not scraper.isprintable():
        raise InvalidSetting("scraper", f"must be a printable name, got {scraper!r}")
    if run_id is not None and not _RUN_ID.fullmatch(run_id):
        raise InvalidSetting(
            "run_id", f"must be 1 to 100 letters, digits, '_', '-' or '.', got {run_id[:120]!r}"
        )
    if run_id == "newest":
        raise InvalidSetting("run_id", "cannot be 'newest', which means the newest run. Choose another id")
    if settings.host_delay < ZERO:
        raise InvalidSetting("host_delay", f"must not be negative, got {settings.host_delay}")
    if settings.per_host < 1:
        raise InvalidSetting("per_host", f"must be at least 1, got {settings.per_host}")
    if settings.max_attempts < 1:
        raise InvalidSetting("max_attempts", f"must be at least 1, got {settings.max_attempts}")
    if settings.ttl is not None and settings.ttl <= ZERO:
        raise InvalidSetting("ttl", f"must be more than zero, got {settings.ttl}")
    if settings.dedup is not None and not ZERO < settings.dedup <= MAX_TTL:
        raise InvalidSetting(
            "dedup", f"must be more than zero and at most a hundred years, got {settings.dedup}"
        )


def changed_settings(run: Run, limits: RunLimits) -> RunSettings:
    """Return the settings of a run with some of them changed; raises InvalidSetting."""
    changed = replace(run.settings, **limits)
    check_run(run.scraper, changed, run.id)
    return changed


def steered(run: Run, wanted: RunState) -> Run:
    """Return a run after a change of its state; raises RunConflict if its state did not allow it."""
    if run.state is wanted or wanted is RunState.PARTIAL:
        return run
    if run.state is RunState.CANCELLED:
        raise RunConflict(run.id, "was cancelled and cannot continue. Start a new run")
    how = shoal_command(f"status {run.id}")
    raise RunConflict(run.id, f"has ended: {run.reason}. How to go on with it: {how}")


def known_ids(ids: Collection[str]) -> list[bytes]:
    """Return ids as they are stored, without texts that cannot be the id of a task."""
    return [bytes.fromhex(one) for one in dict.fromkeys(ids) if _TASK_ID.fullmatch(one)]


def check_claim(request: ClaimRequest) -> ClaimRequest:
    """Return a claim that can be made; raises InvalidSetting or InvalidNote."""
    if request.limit < 1:
        raise InvalidSetting("limit", f"must be at least 1, got {request.limit}")
    check_lease(request.lease)
    if not ZERO <= request.lead <= MAX_LEAD:
        raise InvalidSetting("lead", f"must be zero to {MAX_LEAD.total_seconds():g} s, got {request.lead}")
    if request.fence is not None:
        check_notes(request.fence[0], [request.fence[1]])
    return request


def check_lease(lease: timedelta) -> None:
    """Raise InvalidSetting unless leases can last for this long."""
    if lease <= ZERO:
        raise InvalidSetting("lease", f"must be more than zero, got {lease}")


def check_delay(delay: timedelta) -> None:
    """Raise InvalidSetting unless tasks can be delayed for this long."""
    if not ZERO <= delay <= MAX_TTL:
        raise InvalidSetting("delay", f"must be zero to a hundred years, got {delay}")


def new_stamp() -> int:
    """Return a stamp that no note has had: a repeated write recognises its own work by it."""
    return secrets.randbits(62) + 1


def check_notes(topic: str, keys: Iterable[object] = ()) -> None:
    """Raise InvalidNote unless topic and keys are valid."""
    if not _is_name(topic, MAX_TOPIC):
        raise InvalidNote(str(topic), f"its topic must be 1 to {MAX_TOPIC} printable characters")
    for key in keys:
        if not _is_name(key, MAX_NOTE_KEY):
            got = f"{len(key):,} characters" if isinstance(key, str) else type(key).__name__
            limit = f"1 to {MAX_NOTE_KEY:,} printable characters"
            raise InvalidNote(topic, f"a key must be {limit}, got {got}: {shorten(repr(key))}")


def check_new_notes(topic: str, values: Mapping[str, object], ttl: timedelta | None) -> None:
    """Raise InvalidNote unless these notes can be written."""
    check_notes(topic, values)
    size = 0
    for value in values.values():
        if value is not None and not isinstance(value, bytes):
            raise InvalidNote(topic, f"a value must be bytes or None, got {type(value).__name__}")
        size += len(value or b"")
    if size > MAX_NOTES:
        raise InvalidNote(topic, f"the values have {size:,} bytes, the limit of one call is {MAX_NOTES:,}")
    if ttl is not None and not ZERO < ttl <= MAX_TTL:
        raise InvalidNote(topic, f"ttl must be more than zero and at most a hundred years, got {ttl}")


def check_trim(topic: str, max_bytes: int) -> None:
    """Raise InvalidNote unless a topic can be trimmed to this size."""
    check_notes(topic)
    if max_bytes < 0:
        raise InvalidNote(topic, f"max_bytes must not be negative, got {max_bytes}")


def _is_name(text: object, max_length: int) -> bool:
    return isinstance(text, str) and 0 < len(text) <= max_length and text.isprintable()
