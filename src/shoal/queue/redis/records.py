"""The records that the scripts read and write, as MessagePack arrays."""

from typing import NamedTuple

import msgspec


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
    """A task that is delayed or may expire: its lane, then its element."""

    section: int
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
    section: int
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
    section: int
    priority: int
    start: int
    deadline: int
    host: str
    tasks: list[Element]


class LetterRecord(msgspec.Struct, array_like=True, frozen=True):
    """A dead letter or an expired task: how it ended, then the task's element."""

    section: int
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


class Parcel(NamedTuple):
    """A new task as a script receives it."""

    host: str
    section: str
    key: str
    priority: int
    ttl: int
    delay: int
    element: bytes
    scraper_key: str = ""
