"""The records that the scripts read and write, as MessagePack arrays, and how tasks are packed in them."""

import struct
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec

from shoal.core.model import (
    ZERO,
    Attempt,
    DeadLetter,
    ExpiredTask,
    Lease,
    Run,
    RunSettings,
    RunState,
    Task,
    TaskState,
    TaskStatus,
)
from shoal.queue.encoding import duration, micros, moment
from shoal.queue.intake import QueuedTask, read_payload

pack = msgspec.msgpack.Encoder().encode
unpack = msgspec.msgpack.decode
_encode_json = msgspec.json.Encoder().encode
_steps = msgspec.json.Decoder(tuple[str, ...]).decode

_ARRAY = struct.Struct(">BI").pack
_HEAD = struct.Struct(">2s16s3sBI").pack
_NO_HISTORY = b"\xc0"
_FIVE, _NINE = b"\x95", b"\x99"  # array headers, which the stored values lack

GROUPS = 64  # of a set of keys, as in `46_seen.lua`
ELEMENT_HEAD = 18  # bytes; of a task that may expire, a host queue holds only this head


class Fields(msgspec.Struct, array_like=True, frozen=True):
    """The part of a task that clients read. The time to live comes first: a script reads it to replay."""

    ttl: int
    delay: int
    depth: int
    url: str | None
    payload: str | None
    key: str | None

    @property
    def is_plain(self) -> bool:
        """Whether the task has a page and nothing else, as most have."""
        return self.payload is None and self.key is None and not self.ttl and not self.delay


PastAttempt = tuple[int, str, str, int]


class Element(msgspec.Struct, array_like=True, frozen=True):
    """A waiting task as it is stored."""

    id: bytes
    attempts: int
    size: int
    fields: Fields
    history: list[PastAttempt] | None


class BodyRecord(msgspec.Struct, array_like=True, frozen=True):
    """A task that is delayed or may expire: its host queue, then its element."""

    step_group: int
    priority: int
    expires: int
    host: str
    id: bytes
    attempts: int
    size: int
    fields: Fields
    history: list[PastAttempt] | None


class LeaseRecord(msgspec.Struct, array_like=True, frozen=True):
    """A lease as `claim.lua` writes it: the fields of the claim, then the task's element."""

    token: int
    step_group: int
    priority: int
    start: int
    deadline: int
    expires: int
    host: str
    worker: str
    id: bytes
    attempts: int
    size: int
    fields: Fields
    history: list[PastAttempt] | None


class LeaseGroup(msgspec.Struct, array_like=True, frozen=True):
    """Leases of a claim that have everything but their tasks in common; `token` is that of the first."""

    token: int
    step_group: int
    priority: int
    start: int
    deadline: int
    host: str
    tasks: list[Element]


class LetterRecord(msgspec.Struct, array_like=True, frozen=True):
    """A dead letter or an expired task: how it ended, then the task's element."""

    step_group: int
    priority: int
    host: str
    attempts: int
    at: int
    error: str
    id: bytes
    tried: int
    size: int
    fields: Fields
    history: list[PastAttempt] | None


class ClaimHead(msgspec.Struct, array_like=True, frozen=True):
    """The state of the run after a claim; a `next_due` or `highest` of -1 means none."""

    next_due: int
    drained: bool
    more: bool
    highest: int
    remaining: int
    moves: int
    outbox: int
    names: list[tuple[int, str]]
    now: int
    outdated: bool = False
    redelivers: bool = False
    slowed: list[tuple[str, int]] = []


class Stored(msgspec.Struct, array_like=True, frozen=True):
    """The results of one task in one settlement: items as JSON, rejects as JSON and reason, alternating."""

    task: bytes
    url: str | None
    step: str
    data: list[str]


class PackedTask(NamedTuple):
    """A new task as a script receives it."""

    host: str
    step_group: str
    key: str
    priority: int
    ttl: int
    delay: int
    element: bytes
    scraper_key: str = ""


_groups = msgspec.msgpack.Decoder(list[LeaseGroup]).decode
_element = msgspec.msgpack.Decoder(Element).decode
_body = msgspec.msgpack.Decoder(BodyRecord).decode
read_letter = msgspec.msgpack.Decoder(LetterRecord).decode
_head = msgspec.msgpack.Decoder(ClaimHead).decode
read_stored = msgspec.msgpack.Decoder(list[Stored]).decode
read_outgoing = msgspec.msgpack.Decoder(list[PackedTask]).decode

read_lease = msgspec.msgpack.Decoder(LeaseRecord).decode


# Out


def pack_task(entry: QueuedTask) -> PackedTask:
    """Pack a new task."""
    ttl = micros(entry.ttl) if entry.ttl else 0
    delay = micros(entry.delay) if entry.delay else 0
    url, site = entry.url, f"https://{entry.host}"
    if url is not None and url.startswith(site):
        url = url[len(site) :]  # the host queue has the host
    payload = None if entry.payload == "{}" else entry.payload
    fields = pack((ttl, delay, entry.depth, url, payload, entry.key))
    head = _HEAD(b"\xc4\x10", entry.id, b"\xcd\0\0", 0xCE, len(fields))
    return PackedTask(
        entry.host,
        f"{entry.step}\0{entry.partition}",
        key_of(entry.id),
        entry.priority,
        ttl,
        delay,
        head + fields + _NO_HISTORY,
        "" if entry.scraper_key is None else scraper_key_of(entry.scraper_key),
    )


def key_of(task_id: bytes) -> str:
    """Return the number under which a task's id is stored as seen."""
    return str(int.from_bytes(task_id[8:], "big", signed=True))


def scraper_key_of(key: bytes) -> str:
    """Return the group and the number of a key that all runs of a scraper share: see `46_seen.lua`."""
    return f"{key[7] % GROUPS}:{key_of(key)}"


def columns(tasks: Sequence[PackedTask], homes: Sequence[int] = (), of: Sequence[int] = ()) -> bytes:
    """Return the columns that `put` reads: each name once, tasks refer to them by position."""
    hosts: dict[str, int] = {}
    step_groups: dict[str, int] = {}
    host_of = [hosts.setdefault(one.host, len(hosts) + 1) for one in tasks]
    step_group_of = [step_groups.setdefault(one.step_group, len(step_groups) + 1) for one in tasks]
    ttls = [one.ttl for one in tasks]
    delays = [one.delay for one in tasks]
    keys = [one.scraper_key for one in tasks]
    return pack(
        [
            list(hosts),
            list(step_groups),
            [one.key for one in tasks],
            host_of,
            step_group_of,
            [one.priority for one in tasks],
            ttls if any(ttls) else [],
            delays if any(delays) else [],
            of,
            homes,
            keys if any(keys) else [],
        ]
    )


# In


def read_claim(reply: tuple[bytes, Sequence[Sequence[bytes]]], run_id: str) -> tuple[ClaimHead, list[Lease]]:
    """Decode the reply of a claim."""
    head = _head(reply[0])
    names = {step_group: name.split("\0") for step_group, name in head.names}
    # A group arrives as the beginning of an array and its elements, which lack their headers.
    groups = _groups(b"".join((_ARRAY(0xDD, len(reply[1])), *map(_FIVE.join, reply[1]))))
    # A repeated claim returns starts that have passed. They cannot move, because other leases have the starts
    # after them: so the claim is reported to be as old as its first start.
    first = min([head.now, *(group.start for group in groups)])
    slowed = {host: duration(slowdown) for host, slowdown in head.slowed}
    in_time = cache(duration)  # most groups of a claim have the same start and the same deadline
    leases: list[Lease] = []
    for group in groups:
        host, step, priority = group.host, names[group.step_group], group.priority
        start, deadline = in_time(group.start - first), in_time(group.deadline - head.now)
        slowdown = slowed.get(host, ZERO)
        leases += [
            Lease(
                run_id=run_id,
                task_id=row.id.hex(),
                token=token,
                task=_task(row.fields, host, step, priority),
                attempt=row.attempts + 1,
                start_in=start,
                deadline_in=deadline,
                host_slowdown=slowdown,
            )
            for token, row in enumerate(group.tasks, group.token)
        ]
    return msgspec.structs.replace(head, now=first), leases


def _task(fields: Fields, host: str, names: Sequence[str], priority: int) -> Task:
    url = fields.url
    if url is not None and url[0] == "/":
        url = f"https://{host}{url}"
    step, partition = names[0], names[1]
    if fields.is_plain:
        return Task(url=url, step=step, partition=partition, priority=priority, depth=fields.depth)
    payload, request = read_payload(fields.payload)
    ttl = duration(fields.ttl) if fields.ttl else None
    delay = duration(fields.delay) if fields.delay else ZERO
    return Task(
        url=url,
        step=step,
        payload=payload,
        key=fields.key,
        partition=partition,
        priority=priority,
        ttl=ttl,
        delay=delay,
        depth=fields.depth,
        request=request,
    )


def read_element(element: bytes) -> Element:
    """Decode a task from a host queue."""
    return _element(_FIVE + element)


def read_body(body: bytes) -> BodyRecord:
    """Decode a task that is delayed or may expire."""
    return _body(_NINE + body)


def status_of(
    row: Element | BodyRecord | LeaseRecord | LetterRecord,
    state: TaskState,
    names: Sequence[str],
    priority: int,
    host: str,
    *,
    attempt: int | None = None,
    worker: str | None = None,
    since: int | None = None,
) -> TaskStatus:
    """Return the status of a task."""
    task = _task(row.fields, host, names, priority)
    return TaskStatus(
        id=row.id.hex(),
        step=task.step,
        state=state,
        url=task.url,
        task=task,
        worker_id=worker,
        since=None if since is None else moment(since),
        attempt=row.attempts if attempt is None else attempt,
    )


def dead_letter(row: LetterRecord, names: Mapping[int, list[str]]) -> DeadLetter:
    """Return a dead letter."""
    return DeadLetter(
        id=row.id.hex(),
        task=_task(row.fields, row.host, names[row.step_group], row.priority),
        attempts=row.attempts,
        error=row.error,
        history=tuple(
            Attempt.stored(attempt, worker, text, moment(at))
            for attempt, worker, text, at in row.history or ()
        ),
        buried_at=moment(row.at),
    )


def expired_task(row: LetterRecord, names: Sequence[str], place: str = "") -> ExpiredTask:
    """Return a task whose time to live is over."""
    task = _task(row.fields, row.host, names, row.priority)
    return ExpiredTask(id=row.id.hex(), task=task, expired_at=moment(row.at), cursor=place)


def numbers(packed: bytes) -> list[int]:
    """Return a row of counts."""
    return unpack(packed, type=list[int])


def settings_fields(scraper: str, settings: RunSettings) -> list[Any]:
    """Return the fields of a run that its caller sets."""
    return [
        "scraper",
        scraper,
        "host_delay",
        micros(settings.host_delay),
        "per_host",
        settings.per_host,
        "max_attempts",
        settings.max_attempts,
        "ttl",
        "" if settings.ttl is None else micros(settings.ttl),
        "dedup",
        "" if settings.dedup is None else micros(settings.dedup),
        "dedup_steps",
        _encode_json(settings.dedup_steps),
    ]


def fields_of(reply: Sequence[bytes]) -> dict[str, str]:
    """Return a hash as a script returned it."""
    words = [word.decode() for word in reply]
    return dict(zip(words[::2], words[1::2], strict=True))


def run_from(fields: Mapping[str, str]) -> Run:
    """Return a run from its hash."""
    return Run(
        id=fields["id"],
        scraper=fields["scraper"],
        state=RunState(fields["state"]),
        started_at=moment(int(fields["started"])),
        reason=fields.get("reason", ""),
        settings=RunSettings(
            host_delay=duration(int(fields["host_delay"])),
            per_host=int(fields["per_host"]),
            max_attempts=int(fields["max_attempts"]),
            ttl=duration(int(fields["ttl"])) if fields["ttl"] else None,
            dedup=duration(int(fields["dedup"])) if fields["dedup"] else None,
            dedup_steps=_steps(fields["dedup_steps"]),
        ),
    )
