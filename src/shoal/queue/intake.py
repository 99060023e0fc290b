"""Prepares tasks and outcomes for a queue: checks them, makes URLs canonical, computes ids and hosts."""

import re
from base64 import b64decode
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from hashlib import blake2b
from itertools import groupby
from typing import Any, NamedTuple, assert_never
from zlib import crc32

import msgspec

from shoal.core.errors import InvalidItem, InvalidTask, InvalidUrl
from shoal.core.failures import failure_text
from shoal.core.model import (
    DOWNLOAD_KEY,
    HIGHEST_PRIORITY,
    LOWEST_PRIORITY,
    NOTHING,
    ZERO,
    Bury,
    Done,
    Outcome,
    Release,
    Retry,
    Run,
    RunSettings,
    Task,
)
from shoal.core.request_options import METHODS, POST, RequestOptions, asked_for
from shoal.core.tasks import iterate
from shoal.core.text import shorten
from shoal.core.urls import canonical_with_host
from shoal.queue.encoding import storable
from shoal.queue.requests import OnInvalid, Tasks

MAX_NAME = 200
MAX_KEY = 8192
MAX_PAYLOAD = 1 << 20
BATCH = 2_000
MAX_KNOWN_LINKS = 8_192  # some 4 MB

NO_HOST = ""

# An escaped NUL, and not an escaped backslash that "u0000" happens to follow.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_MAX_DURATION = timedelta(days=36_500)

_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="deterministic").encode
decode = msgspec.json.decode


class QueuedTask(NamedTuple):
    """A task as a backend stores it. Created for every link, so it must be cheap."""

    id: bytes
    host: str
    url: str | None
    step: str
    partition: str
    priority: int
    payload: str
    key: str | None
    ttl: timedelta | None
    delay: timedelta
    depth: int
    scraper_key: bytes | None = None  # the same in every run of the scraper; None where `dedup` is off


class Intake:
    """Turns the tasks of one run into queued tasks, or raises InvalidTask.

    Without the name of the scraper it computes ids, but no keys for `dedup`.
    """

    def __init__(self, run_id: str, settings: RunSettings, scraper: str | None = None) -> None:
        self._ttl = settings.ttl
        self._hash = _hash_for(run_id)
        dedups = settings.dedup is not None and scraper is not None
        self._scraper_hash = _hash_for(scraper or "") if dedups else None
        self._dedup_steps = frozenset(settings.dedup_steps)
        # Priorities are compared with their types: True is none, though it equals 1.
        self._known_link = lru_cache(maxsize=MAX_KNOWN_LINKS, typed=True)(self._convert_link)

    def entry(self, task: Task) -> QueuedTask:
        """Check and convert one task; raises InvalidTask."""
        _check_fields(task)
        url, host = _canonical(task)
        payload = _payload(task)
        identity = task.key or _identity(task, url)
        # A download may carry an item: it never expires, and is never left out as known.
        is_download = DOWNLOAD_KEY in task.payload
        return QueuedTask(
            self.fingerprint(task.step, identity),
            host,
            url,
            task.step,
            task.partition,
            task.priority,
            payload,
            task.key,
            None if is_download else shorter(self._ttl, task.ttl),
            task.delay,
            task.depth,
            self._scraper_key(task.step, identity) if self._scraper_hash and not is_download else None,
        )

    def follow_up(self, task: Task) -> QueuedTask:
        """Check and convert a follow-up task; a link that many pages have is converted once."""
        is_plain = task.key is None and task.ttl is None and task.delay is ZERO
        if not is_plain or task.payload or task.request:
            return self.entry(task)
        try:
            return self._known_link(task.url, task.step, task.partition, task.priority, task.depth)
        except TypeError:  # a field that cannot be hashed
            return self.entry(task)

    def _convert_link(
        self, url: str | None, step: str, partition: str, priority: int, depth: int
    ) -> QueuedTask:
        return self.entry(Task(url=url, step=step, partition=partition, priority=priority, depth=depth))

    async def batches(
        self, tasks: Tasks, on_invalid: OnInvalid | None, size: int = BATCH
    ) -> AsyncIterator[tuple[list[QueuedTask], int]]:
        """Split a stream of tasks into batches, each with the number of invalid tasks."""
        batch: list[QueuedTask] = []
        invalid = 0
        position = -1
        async for task in iterate(tasks):
            position += 1
            try:
                batch.append(self.entry(task))
            except InvalidTask as error:
                invalid += 1
                if on_invalid:
                    on_invalid(position, error)
            if len(batch) >= size:
                yield batch, invalid
                batch, invalid = [], 0
        if batch or invalid:
            yield batch, invalid

    def fingerprint(self, step: str, identity: str) -> bytes:
        """Return 128 bits for a key of (run, step); keys of one host share their first 32.

        The shared prefix keeps the links of a page on adjacent index pages; the rest is keyed BLAKE2, so that
        a hostile site cannot provoke a false "seen".
        """
        return _fingerprint(self._hash, step, identity)

    def _scraper_key(self, step: str, identity: str) -> bytes | None:
        """Return the key of a task in all runs of the scraper; it has the same prefix as the task's id."""
        if self._scraper_hash is None or (self._dedup_steps and step not in self._dedup_steps):
            return None
        return _fingerprint(self._scraper_hash, step, identity)


def _hash_for(name: str) -> blake2b:
    return blake2b(digest_size=12, key=blake2b(name.encode(), digest_size=32).digest())


def _fingerprint(keyed: blake2b, step: str, identity: str) -> bytes:
    digest = keyed.copy()
    digest.update(f"{step}\0{identity}".encode())
    site = identity[: identity.find("/", 8)]
    return crc32(site.encode()).to_bytes(4, "big") + digest.digest()


def task_id(run: Run, task: Task) -> str:
    """Return the id of a task in a run, whether it has entered or not; raises InvalidTask."""
    return Intake(run.id, run.settings).entry(task).id.hex()


def ids_of(run: Run, step: str | None, keys: Iterable[str], steps: Iterable[str]) -> dict[bytes, str]:
    """Return the ids of tasks named by key, URL or payload, in one step or in all, with the step."""
    intake = Intake(run.id, run.settings)
    names = {name for key in keys for name in _names_of(key)}
    chosen = list(steps) if step is None else [step]
    return {intake.fingerprint(one, name): one for one in chosen for name in names}


def _names_of(key: str) -> set[str]:
    """Return the possible identities of a text: itself, as a canonical URL, as a payload."""
    names = {key}
    with suppress(InvalidUrl):
        names.add(canonical_with_host(key)[0])
    with suppress(msgspec.DecodeError):
        names.add(_encode_sorted(decode(key)).decode())
    return names


def encode_item(data: Any) -> str:
    """Return an item as JSON text; raises InvalidItem."""
    try:
        text = _encode(data).decode()
    except (TypeError, ValueError, UnicodeError, RecursionError) as error:
        raise InvalidItem(data, f"it is not JSON: {error}") from error
    if "\\u0000" in text and _NUL.search(text):
        raise InvalidItem(data, "it holds a NUL character; remove it before yielding the item")
    return text


class PreparedOutcome(msgspec.Struct, frozen=True):
    """An outcome with its items, its rejects with reasons, and its follow-up tasks as they are stored."""

    outcome: Outcome
    items: Sequence[str] = ()
    rejects: Sequence[tuple[str, str]] = ()
    follow: Sequence[QueuedTask] = ()


def prepare(outcomes: Iterable[Outcome], intakes: Mapping[str, Intake]) -> list[PreparedOutcome]:
    """Check and encode outcomes; raises InvalidItem or InvalidTask.

    `intakes` has an intake for every run whose outcomes have follow-up tasks.
    """
    return [
        _prepare_done(outcome, intakes.get(outcome.lease.run_id))
        if isinstance(outcome, Done)
        else PreparedOutcome(outcome)
        for outcome in outcomes
    ]


def _prepare_done(done: Done, intake: Intake | None) -> PreparedOutcome:
    return PreparedOutcome(
        done,
        [encode_item(data) for data in done.items] if done.items else (),
        [(encode_item(one.data), storable(one.reason)) for one in done.rejects] if done.rejects else (),
        [intake.follow_up(task) for task in done.follow] if done.follow and intake else (),
    )


class OutcomeFields(NamedTuple):
    """An outcome as stores get it: its letter, and None for what it does not have."""

    letter: str
    after: timedelta | None
    error: str | None
    pause_host: timedelta | None
    slow_host: timedelta | None


def outcome_fields(outcome: Outcome) -> OutcomeFields:
    """Return D(one), R(etry), B(ury) or F(ree: released), and the fields of an outcome."""
    match outcome:
        case Done():
            return OutcomeFields("D", None, None, outcome.pause_host, outcome.slow_host)
        case Retry():
            error = failure_text(outcome)
            return OutcomeFields("R", outcome.after, error, outcome.pause_host, outcome.slow_host)
        case Bury():
            return OutcomeFields("B", None, failure_text(outcome), outcome.pause_host, outcome.slow_host)
        case Release():
            return OutcomeFields("F", outcome.after, None, None, outcome.slow_host)
        case _:
            assert_never(outcome)


def in_runs(outcomes: Sequence[PreparedOutcome]) -> Iterator[tuple[str, list[int]]]:
    """Yield the positions to apply, split where the run changes; of two outcomes for a lease, the first."""
    first: dict[tuple[str, int], int] = {}
    runs: set[str] = set()
    for position, one in enumerate(outcomes):
        lease = one.outcome.lease
        first.setdefault((lease.task_id, lease.token), position)
        runs.add(lease.run_id)
    if len(runs) == 1:  # as usual: `groupby` costs more than all the rest
        yield runs.pop(), list(first.values())
        return
    for run_id, positions in groupby(first.values(), key=lambda p: outcomes[p].outcome.lease.run_id):
        yield run_id, list(positions)


def page_of(task: Task) -> str | None:
    """Return the URL that the items of a task are stored with.

    Those of a download belong to the page that asked for it, unless a step was run on the file.
    """
    plan = task.payload.get(DOWNLOAD_KEY)
    # The first comparison is for speed: most tasks download nothing, and `isinstance` of an ABC is slow.
    if plan is None or not isinstance(plan, Mapping) or plan.get("runs_step"):
        return task.url
    return plan.get("origin") or task.url


def shorter(one: timedelta | None, other: timedelta | None) -> timedelta | None:
    """Return the shorter of two times to live; None means unlimited."""
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)


def _check_fields(task: Task) -> None:
    try:
        wrong = _wrong_field(task)
    except (TypeError, AttributeError) as error:
        wrong = _wrong_type(task) or f"a field has the wrong type: {error}"
        raise InvalidTask(task, wrong) from error
    if wrong:
        raise InvalidTask(task, wrong)


def _wrong_type(task: Task) -> str | None:
    # Only after a failure: a check of every field of every link would cost time.
    times: dict[str, Any] = {"delay": task.delay, "ttl": task.ttl or ZERO}
    for name, given in times.items():
        if not isinstance(given, timedelta):
            return f"{name} must be a timedelta such as {name}=timedelta(hours=1), got {shorten(repr(given))}"
    return None


def _wrong_field(task: Task) -> str | None:
    if type(task.priority) is not int or not LOWEST_PRIORITY <= task.priority <= HIGHEST_PRIORITY:
        return f"priority must be {LOWEST_PRIORITY} to {HIGHEST_PRIORITY}, got {task.priority!r}"
    if not task.step or not _is_name(task.step):
        return f"step must be 1 to {MAX_NAME} printable characters, got {shorten(repr(task.step))}"
    if not _is_name(task.partition):
        return f"partition must be at most {MAX_NAME} printable characters"
    if task.key is not None and not (0 < len(task.key) <= MAX_KEY and task.key.isprintable()):
        return f"key must be 1 to {MAX_KEY} printable characters"
    if not ZERO <= task.delay <= _MAX_DURATION:
        return f"delay must be zero to a hundred years, got {task.delay}"
    if task.ttl is not None and not ZERO < task.ttl <= _MAX_DURATION:
        return f"ttl must be more than zero and at most a hundred years, got {task.ttl}"
    if type(task.depth) is not int or not 0 <= task.depth < 1 << 31:
        return f"depth must be a whole number from 0, got {task.depth!r}"
    return None if task.request is None else _wrong_request(task.url, task.request)


def _wrong_request(url: str | None, request: RequestOptions) -> str | None:
    if url is None:
        return "a task without a URL sends no request; leave request out"
    if type(request.post) not in (bytes, type(None)):
        given = type(request.post).__name__
        return f"post must be bytes, got {given}; RequestOptions.form and RequestOptions.json make them"
    if request.method == "HEAD" and request.post:
        return "a HEAD sends no body; leave post out"
    if request.method not in METHODS or (request.method == "GET" and request.post is not None):
        return f"method must be one of {', '.join(METHODS[1:])}, got {shorten(repr(request.method))}"
    if any(type(text) is not str for field in request.headers.items() for text in field):
        return "headers must be strings"
    return None


def _is_name(text: str) -> bool:
    return len(text) <= MAX_NAME and text.isprintable()


def _canonical(task: Task) -> tuple[str | None, str]:
    if task.url is None:
        return None, NO_HOST
    try:
        return canonical_with_host(task.url)
    except InvalidUrl as error:
        raise InvalidTask(task, str(error)) from error


def _identity(task: Task, url: str | None) -> str:
    if url is None:
        return _encode_sorted(_with_request(task)).decode()
    return url if task.request is None else asked_for(url, task.request.post, task.request.method)


def _payload(task: Task) -> str:
    if not (task.payload or task.request):
        return "{}"
    try:
        text = _encode(_with_request(task)).decode()
    except (TypeError, ValueError, UnicodeError, RecursionError) as error:
        payload: Any = task.payload
        if not isinstance(payload, Mapping):
            given = shorten(repr(payload))
            raise InvalidTask(task, f"payload must be a dict such as {{'page': 1}}, got {given}") from error
        raise InvalidTask(task, f"payload is not JSON: {error}") from error
    if "\\u0000" in text and _NUL.search(text):
        raise InvalidTask(task, "payload holds a NUL character; remove it")
    if len(text) > MAX_PAYLOAD:
        raise InvalidTask(task, f"payload has {len(text):,} characters of JSON, the limit is {MAX_PAYLOAD:,}")
    return text


def _with_request(task: Task) -> Any:
    """Return what is stored as JSON: the payload, or a list of payload, body, headers and method."""
    if task.request is None:
        return dict(task.payload)
    request = task.request
    stored: list[Any] = [dict(task.payload), request.post, dict(request.headers)]
    return stored if request.method == POST else [*stored, request.method]


class StoredFields(NamedTuple):
    """The fields of a task that are stored as one text."""

    payload: Mapping[str, Any] = NOTHING
    request: RequestOptions | None = None


def read_payload(text: str | bytes | None) -> StoredFields:
    """Decode the stored payload of a task and its request options."""
    return StoredFields() if text is None else stored_fields(decode(text))


def stored_fields(found: Any) -> StoredFields:
    """Return the fields of a task from the decoded JSON that it is stored with."""
    if isinstance(found, dict):
        return StoredFields(found)
    payload, post, headers, *more = found
    method: str = more[0] if more else POST
    body = None if post is None else b64decode(post)
    return StoredFields(payload, RequestOptions(post=body, headers=headers, method=method))
