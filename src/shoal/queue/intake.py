"""What enters a queue: a task checked, made canonical, and given its identity and its host."""

from collections.abc import AsyncIterable, AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import blake2b
from typing import Any
from zlib import crc32

import msgspec

from shoal.core.errors import InvalidItem, InvalidTask, InvalidUrl
from shoal.core.model import HIGHEST_PRIORITY, LOWEST_PRIORITY, ZERO, RunSettings, Task
from shoal.core.urls import canonical_with_host
from shoal.queue.contract import OnInvalid, Tasks

MAX_NAME = 200
MAX_KEY = 8192
MAX_PAYLOAD = 1 << 20
BATCH = 2_000

NO_HOST = ""

_encode = msgspec.json.Encoder(order="deterministic").encode
decode = msgspec.json.decode


@dataclass(frozen=True, slots=True)
class Entry:
    """A task as a backend stores it."""

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


class Intake:
    """The door of one run: turns tasks into entries, or says why it cannot."""

    def __init__(self, run_id: str, settings: RunSettings) -> None:
        self._ttl = settings.ttl
        self._hash = blake2b(digest_size=12, key=blake2b(run_id.encode(), digest_size=32).digest())

    def entry(self, task: Task) -> Entry:
        """Check one task; raises InvalidTask."""
        _check_fields(task)
        url, host = _canonical(task)
        payload = _payload(task)
        return Entry(
            id=self._fingerprint(task.step, task.key or url or payload),
            host=host,
            url=url,
            step=task.step,
            partition=task.partition,
            priority=task.priority,
            payload=payload,
            key=task.key,
            ttl=shorter(self._ttl, task.ttl),
            delay=task.delay,
            depth=task.depth,
        )

    async def batches(
        self, tasks: Tasks, on_invalid: OnInvalid | None, size: int = BATCH
    ) -> AsyncIterator[tuple[list[Entry], int]]:
        """Cut a stream of tasks into batches of entries, each with the number of tasks that were refused."""
        batch: list[Entry] = []
        invalid = 0
        position = -1
        async for task in _each(tasks):
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

    def _fingerprint(self, step: str, identity: str) -> bytes:
        """Return 128 bits for a key of (run, step); keys of one host share their first 32.

        The shared beginning keeps the links of a page on neighbouring index pages; the rest is
        keyed BLAKE2, so that a hostile site cannot provoke a false "seen".
        """
        digest = self._hash.copy()
        digest.update(f"{step}\0{identity}".encode())
        site = identity[: identity.find("/", 8)]
        return crc32(site.encode()).to_bytes(4, "big") + digest.digest()


def encode_item(data: Any) -> str:
    """Return an item as JSON text; raises InvalidItem."""
    try:
        text = _encode(data).decode()
    except (TypeError, ValueError, UnicodeError, RecursionError) as error:
        raise InvalidItem(data, f"it is not JSON: {error}") from error
    if "\\u0000" in text:
        raise InvalidItem(data, "it holds a NUL character; remove it before yielding the item")
    return text


def shorter(one: timedelta | None, other: timedelta | None) -> timedelta | None:
    """Return the smaller of two times to live, where None means for ever."""
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)


def _check_fields(task: Task) -> None:
    if not LOWEST_PRIORITY <= task.priority <= HIGHEST_PRIORITY:
        raise InvalidTask(
            task, f"priority must be {LOWEST_PRIORITY} to {HIGHEST_PRIORITY}, got {task.priority}"
        )
    for what, name in (("step", task.step), ("partition", task.partition)):
        if len(name) > MAX_NAME or not name.isprintable():
            raise InvalidTask(task, f"{what} must be at most {MAX_NAME} printable characters")
    if not task.step:
        raise InvalidTask(task, "step must not be empty")
    if task.key is not None and (not task.key or len(task.key) > MAX_KEY or "\0" in task.key):
        raise InvalidTask(task, f"key must be 1 to {MAX_KEY} characters without NUL")
    if task.delay < ZERO or (task.ttl is not None and task.ttl <= ZERO):
        raise InvalidTask(task, "delay must not be negative, and ttl must be more than zero")
    if task.depth < 0:
        raise InvalidTask(task, f"depth must not be negative, got {task.depth}")


def _canonical(task: Task) -> tuple[str | None, str]:
    if task.url is None:
        return None, NO_HOST
    try:
        return canonical_with_host(task.url)
    except InvalidUrl as error:
        raise InvalidTask(task, str(error)) from error


def _payload(task: Task) -> str:
    if not task.payload:
        return "{}"
    try:
        text = _encode(dict(task.payload)).decode()
    except (TypeError, ValueError, UnicodeError, RecursionError) as error:
        raise InvalidTask(task, f"payload is not JSON: {error}") from error
    if "\\u0000" in text:
        raise InvalidTask(task, "payload holds a NUL character; remove it")
    if len(text) > MAX_PAYLOAD:
        raise InvalidTask(task, f"payload has {len(text):,} bytes, the limit is {MAX_PAYLOAD:,}")
    return text


async def _each(tasks: Tasks) -> AsyncIterator[Task]:
    if isinstance(tasks, AsyncIterable):
        async for task in tasks:
            yield task
    else:
        for task in tasks:
            yield task
