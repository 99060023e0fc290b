"""What is remembered of a page: by what it is known again, and what it gave."""

from collections.abc import Iterable
from datetime import timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import Any

import msgspec

from shoal.core.model import Reject, Task
from shoal.queue.intake import decode, encode_item
from shoal.scrape.harvest import Harvest

FORM = 1
KEEP = timedelta(days=365)
LARGEST_HARVEST = 1 << 20  # bytes; what is larger is not remembered
LONGEST_TOPIC = 200

_Unreadable = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Finding(StrEnum):
    """How a page compares with the visit before."""

    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    GONE = "gone"


class Visit(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """The last visit to a page: in which run, what was found, and by what the page is known again."""

    form: int = FORM
    run: str
    finding: Finding
    validators: dict[str, str] = {}
    body: bytes = b""
    items: bytes = b""
    follow: bytes = b""

    def is_like(self, other: "Visit") -> bool:
        """Tell whether two visits gave the same: the same items, or without items the same links."""
        return self.items == other.items and (bool(self.items) or self.follow == other.follow)


class _Gave(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    form: int = FORM
    body: bytes
    items: list[bytes]  # as JSON
    rejects: list[Reject]
    follow: list[Task]


encode = msgspec.msgpack.Encoder(enc_hook=dict).encode  # payloads are read-only views of a dict
_encode_sorted = msgspec.json.Encoder(order="deterministic").encode
_visits = msgspec.msgpack.Decoder(Visit)
_gave = msgspec.msgpack.Decoder(_Gave)


def found(before: Visit | None, now: Visit) -> Finding:
    """Judge a page by its last visit and this one."""
    if before and before.run == now.run:
        return before.finding  # the task is done again, and was judged before
    if now.finding is Finding.GONE:
        return Finding.GONE
    if before is None or before.finding is Finding.GONE:
        return Finding.NEW
    return Finding.UNCHANGED if now.is_like(before) else Finding.CHANGED


def topic(*words: str) -> str:
    """Return the topic of these words; one that is too long for a queue is known by its hash."""
    text = ":".join(words)
    return text if len(text) <= LONGEST_TOPIC else f"{words[0]}:{digest(text.encode()).hex()}"


def key_of(task: Task) -> str:
    """Return what a page is known by in every run."""
    return blake2b(f"{task.step}\0{task.key or task.url}".encode(), digest_size=20).hexdigest()


def read_visit(data: bytes) -> Visit | None:
    """Read a visit; None unless it is whole."""
    try:
        visit = _visits.decode(data)
    except _Unreadable:
        return None
    return visit if visit.form == FORM else None


def write_harvest(harvest: Harvest, items: list[bytes], body: bytes) -> bytes | None:
    """Return what a page with this body gave as bytes; None if it is too much to remember."""
    data = encode(_Gave(body=body, items=items, rejects=harvest.rejects, follow=harvest.follow))
    return data if len(data) <= LARGEST_HARVEST else None


def read_harvest(data: bytes, body: bytes) -> Harvest | None:
    """Read what a page gave when it had this body; None unless it is whole."""
    try:
        gave = _gave.decode(data)
        items = [decode(item) for item in gave.items]
    except _Unreadable:
        return None
    if gave.form != FORM or gave.body != body:
        return None
    return Harvest(items=items, rejects=gave.rejects, follow=gave.follow)


def digest(data: bytes) -> bytes:
    """Return what bytes are known by."""
    return blake2b(data, digest_size=16).digest()


def digest_of(parts: Iterable[bytes]) -> bytes:
    """Return what some values are known by, in whatever order they come; empty for none."""
    total = b""
    for part in parts:
        total = added(total, part)
    return total


def added(total: bytes, part: bytes) -> bytes:
    """Return what some values and one more are known by."""
    both = int.from_bytes(total) + int.from_bytes(digest(part))
    return (both % (1 << 128)).to_bytes(16)


def spelled(item: Any) -> bytes:
    """Return an item as JSON, in the same way whatever order its fields come in; raises InvalidItem."""
    return _encode_sorted(decode(encode_item(item)))
