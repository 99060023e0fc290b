"""The events of a random history, as values that a failing example prints."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from shoal.core.model import (
    ZERO,
    Bury,
    DeadFilter,
    Done,
    Lease,
    Outcome,
    Reject,
    Release,
    Retry,
    RunSettings,
    Task,
)
from shoal.queue.contract import RunLimits
from tests.conformance.helpers import TEN

RUNS = ["first", "second"]
HOSTS = ["a.example", "b.example", "c.example:8080"]
STEPS = ["list", "page"]
PARTITIONS = ["", "ca", "ny"]
WORKERS = ["w1", "w2"]
TOPIC, NOTE_KEYS = "plans", ["a", "b", "c"]


@dataclass(frozen=True)
class Enqueued:
    run_id: str
    tasks: list[Task]


@dataclass(frozen=True)
class Claimed:
    """A claim, perhaps after some time without a reclaim."""

    late: timedelta
    asked: dict[str, Any]


@dataclass(frozen=True)
class Settled:
    """Outcomes and the lease of each: a live one, an old one, perhaps the same one twice."""

    late: timedelta
    outcomes: list[tuple[int, Outcome]]


@dataclass(frozen=True)
class Extended:
    which: list[int]
    lease: timedelta


@dataclass(frozen=True)
class WorkerExtended:
    """All leases of a worker extended, perhaps after some time without a reclaim."""

    late: timedelta
    worker_id: str
    lease: timedelta


@dataclass(frozen=True)
class Abandoned:
    """An abandoned worker, perhaps after some time without a reclaim."""

    late: timedelta
    worker_id: str


@dataclass(frozen=True)
class Waited:
    delta: timedelta


@dataclass(frozen=True)
class Cleared:
    """Dead letters replayed, some after a delay, or dropped; `which` picks from all tasks."""

    verb: str
    run_id: str
    which: list[int] | None
    where: DeadFilter
    delay: timedelta


@dataclass(frozen=True)
class Edited:
    """Dead letters edited, as they are or as they were when they were last read."""

    run_id: str
    which: list[int]
    is_current: bool
    fields: dict[str, Any]


@dataclass(frozen=True)
class RunChanged:
    run_id: str
    limits: RunLimits


@dataclass(frozen=True)
class RunSteered:
    verb: str
    run_id: str


@dataclass(frozen=True)
class HostSteered:
    verb: str
    host: str
    duration: timedelta


@dataclass(frozen=True)
class NotesWritten:
    values: dict[str, bytes | None]
    ttl: timedelta | None


@dataclass(frozen=True)
class NoteSwapped:
    """A note written or removed by its stamp: the current one, or an old one."""

    key: str
    value: bytes | None
    right: bool
    ttl: timedelta | None


@dataclass(frozen=True)
class TasksListed:
    run_id: str


NoteEvent = NotesWritten | NoteSwapped
Event = (
    Enqueued
    | Claimed
    | Settled
    | Extended
    | WorkerExtended
    | Abandoned
    | Waited
    | Cleared
    | Edited
    | RunChanged
    | RunSteered
    | HostSteered
    | NoteEvent
    | TasksListed
)

# All times are multiples of ten seconds, so that the milliseconds of a real clock decide nothing.
_waits = st.sampled_from([TEN, TEN, TEN, 2 * TEN, 3 * TEN, 6 * TEN])
_leases = st.sampled_from([TEN, 3 * TEN, 6 * TEN, 12 * TEN, 12 * TEN])
_mostly_zero = st.sampled_from([ZERO] * 6 + [TEN, 3 * TEN])
_brakes = st.sampled_from([None] * 6 + [ZERO, TEN, 3 * TEN])
_durations = st.sampled_from([ZERO, TEN, 9 * TEN])
_runs = st.sampled_from(RUNS)

# Pages over http, and tasks with a key: on a cluster their keys are stored in other shards than their hosts.
_urls = st.builds(
    "{}://{}/{}".format,
    st.sampled_from(["https", "https", "http"]),
    st.sampled_from(HOSTS),
    st.integers(1, 3),
)
tasks = st.builds(
    Task,
    url=st.one_of(_urls, _urls, _urls, st.none()),
    step=st.sampled_from(STEPS),
    payload=st.fixed_dictionaries({"n": st.integers(0, 2)}),
    key=st.sampled_from([None, None, None, None, "k", "l"]),
    partition=st.sampled_from(PARTITIONS),
    priority=st.sampled_from([0, 0, 5, 9]),
    ttl=st.sampled_from([None] * 7 + [2 * TEN, 6 * TEN]),
    delay=_mostly_zero,
    depth=st.integers(0, 2),
)
run_settings = st.builds(
    RunSettings,
    host_delay=st.sampled_from([ZERO, ZERO, TEN, 2 * TEN]),
    per_host=st.integers(1, 3),
    max_attempts=st.integers(1, 3),
    ttl=st.sampled_from([None, None, None, 9 * TEN]),
    # Longer than any history: when exactly a key is forgotten differs by the backend.
    dedup=st.sampled_from([None, None, timedelta(days=365)]),
)

_nobody = st.just(
    Lease(run_id="", task_id="", token=0, task=Task(), attempt=0, start_in=ZERO, deadline_in=ZERO)
)
_errors = st.sampled_from(["timeout", "status 404", "status 503"])
_items = st.lists(st.integers(0, 9), max_size=2)
_rejects = st.lists(st.builds(Reject, data=st.integers(0, 9), reason=st.just("odd")), max_size=1)
_how = {"pause_host": _brakes, "slow_host": _brakes, "asked": st.booleans()}
_done = st.builds(Done, _nobody, _items, st.lists(tasks, max_size=2), _rejects, **_how)
_retry = st.builds(Retry, _nobody, _errors, after=_mostly_zero, **_how)
_bury = st.builds(Bury, _nobody, _errors, **_how)
_release = st.builds(Release, _nobody, after=_mostly_zero, asked=st.booleans())
_outcomes = st.one_of(_done, _done, _retry, _retry, _bury, _release)
_places = st.integers(0, 11)

_claims = st.fixed_dictionaries(
    {
        "run_id": _runs,
        "worker_id": st.sampled_from(WORKERS),
        "limit": st.integers(1, 6),
        "lease": _leases,
        "steps": st.sampled_from([None] * 5 + [["list"], ["page", "list"], []]),
        "partitions": st.sampled_from([None] * 5 + [["ca"], ["", "ny"]]),
    }
)
_filters = st.builds(
    DeadFilter,
    step=st.sampled_from([None, None, *STEPS]),
    partition=st.sampled_from([None, None, *PARTITIONS]),
    host=st.sampled_from([None, None, *HOSTS]),
    error=st.sampled_from([None, None, "status", "lost"]),
)

_enqueued = st.builds(Enqueued, _runs, st.lists(tasks, min_size=1, max_size=5))
_claimed = st.builds(Claimed, _mostly_zero, _claims)
_settled = st.builds(Settled, _mostly_zero, st.lists(st.tuples(_places, _outcomes), min_size=1, max_size=4))
_extended = st.builds(Extended, st.lists(_places, min_size=1, max_size=3), _leases)
_worker_extended = st.builds(
    WorkerExtended, st.sampled_from([ZERO, ZERO, TEN, 6 * TEN]), st.sampled_from(WORKERS), _leases
)
_abandoned = st.builds(Abandoned, st.sampled_from([ZERO, 6 * TEN]), st.sampled_from(WORKERS))
_waited = st.builds(Waited, _waits)
_cleared = st.builds(
    Cleared,
    st.sampled_from(["replay", "replay", "drop"]),
    _runs,
    st.one_of(st.none(), st.none(), st.lists(st.integers(0, 50), max_size=8)),
    st.one_of(st.just(DeadFilter()), _filters),
    st.sampled_from([ZERO, ZERO, TEN, 3 * TEN]),
)
_edited = st.builds(
    Edited,
    _runs,
    st.lists(st.integers(0, 20), min_size=1, max_size=3),
    st.sampled_from([True, True, True, False]),
    st.fixed_dictionaries(
        {},
        optional={
            "url": _urls,
            "step": st.sampled_from(STEPS),
            "payload": st.fixed_dictionaries({"n": st.integers(0, 2)}),
            "priority": st.sampled_from([0, 5]),
            "key": st.sampled_from([None, "k", "m"]),
        },
    ),
)
_run_changed = st.builds(
    RunChanged,
    _runs,
    st.fixed_dictionaries(
        {},
        optional={
            "host_delay": st.sampled_from([ZERO, TEN, 2 * TEN]),
            "per_host": st.integers(1, 3),
            "max_attempts": st.integers(1, 3),
        },
    ),
)
_run_steered = st.builds(RunSteered, st.sampled_from(["pause", "resume", "resume", "resume"]), _runs)
_host_steered = st.builds(
    HostSteered, st.sampled_from(["pause_host", "slow_host"]), st.sampled_from(HOSTS), _durations
)

_note_keys = st.sampled_from(NOTE_KEYS)
_values = st.sampled_from([b"", b"x", b"xx" * 10, None])
_lives = st.sampled_from([None, None, TEN, 3 * TEN])
_written = st.builds(NotesWritten, st.dictionaries(_note_keys, _values, max_size=2), _lives)
_swapped = st.builds(NoteSwapped, _note_keys, _values, st.booleans(), _lives)
_noted = st.one_of(_written, _swapped, _swapped)
_listed = st.builds(TasksListed, _runs)

# The weights ensure that most claims find something and most outcomes find their lease.
_WEIGHTS: dict[st.SearchStrategy[Any], int] = {
    _claimed: 5,
    _settled: 5,
    _waited: 2,
    _enqueued: 2,
    _cleared: 2,
    _edited: 2,
    _run_changed: 1,
    _run_steered: 1,
    _host_steered: 2,
    _extended: 1,
    _worker_extended: 1,
    _abandoned: 1,
    _noted: 2,
    _listed: 1,
}
events: st.SearchStrategy[Event] = st.sampled_from(
    [kind for kind, weight in _WEIGHTS.items() for _ in range(weight)]
).flatmap(lambda kind: kind)
