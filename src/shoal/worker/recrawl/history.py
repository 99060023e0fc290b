"""The record of a page's last visit: its validators and digests, and what it yielded."""

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
VISIT_TTL = timedelta(days=365)
MAX_HARVEST = 1 << 20  # bytes; a larger one is not stored
MAX_TOPIC = 200  # characters

_Unreadable = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class PageChange(StrEnum):
    """How a page compares with its previous visit."""

    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    GONE = "gone"


class PageVisit(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """The last visit to a page: its run, what was found, and how to recognize the page."""

    form: int = FORM
    run: str
    finding: PageChange
    validators: dict[str, str] = {}
    body: bytes = b""
    items: bytes = b""
    follow: bytes = b""

    def is_like(self, other: "PageVisit") -> bool:
        """Return whether two visits yielded the same: the same items, or without items the same links."""
        return self.items == other.items and (bool(self.items) or self.follow == other.follow)


class _StoredHarvest(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    form: int = FORM
    body: bytes
    items: list[bytes]  # as JSON
    rejects: list[Reject]
    follow: list[Task]


encode = msgspec.msgpack.Encoder(enc_hook=dict).encode  # payloads are read-only views of a dict
_encode_sorted = msgspec.json.Encoder(order="deterministic").encode
_visits = msgspec.msgpack.Decoder(PageVisit)
_harvests = msgspec.msgpack.Decoder(_StoredHarvest)


def compare_visits(before: PageVisit | None, now: PageVisit) -> PageChange:
    """Compare this visit of a page with the last one."""
    if before and before.run == now.run:
        return before.finding  # the task is repeated, and was judged before
    if now.finding is PageChange.GONE:
        return PageChange.GONE
    if before is None or before.finding is PageChange.GONE:
        return PageChange.NEW
    return PageChange.UNCHANGED if now.is_like(before) else PageChange.CHANGED


def topic(*words: str) -> str:
    """Return the note topic of these words; the hash of one that is too long for a queue."""
    text = ":".join(words)
    return text if len(text) <= MAX_TOPIC else f"{words[0]}:{digest(text.encode()).hex()}"


def key_of(task: Task) -> str:
    """Return the key of a page, the same in every run."""
    return blake2b(f"{task.step}\0{task.key or task.url}".encode(), digest_size=20).hexdigest()


def read_visit(data: bytes) -> PageVisit | None:
    """Read a visit; None if it is damaged."""
    try:
        visit = _visits.decode(data)
    except _Unreadable:
        return None
    return visit if visit.form == FORM else None


def write_harvest(harvest: Harvest, items: list[bytes], body: bytes) -> bytes | None:
    """Return what a page with this body yielded as bytes; None if it is too large to store."""
    data = encode(_StoredHarvest(body=body, items=items, rejects=harvest.rejects, follow=harvest.follow))
    return data if len(data) <= MAX_HARVEST else None


def read_harvest(data: bytes, body: bytes) -> Harvest | None:
    """Read what a page yielded when it had this body; None if it is damaged."""
    try:
        stored = _harvests.decode(data)
        items = [decode(item) for item in stored.items]
    except _Unreadable:
        return None
    if stored.form != FORM or stored.body != body:
        return None
    return Harvest(items=items, rejects=stored.rejects, follow=stored.follow)


def digest(data: bytes) -> bytes:
    """Return the digest of bytes."""
    return blake2b(data, digest_size=16).digest()


def digest_of(parts: Iterable[bytes]) -> bytes:
    """Return the digest of several values, independent of their order; empty for none."""
    total = b""
    for part in parts:
        total = add_digest(total, part)
    return total


def add_digest(total: bytes, part: bytes) -> bytes:
    """Return the digest of several values and one more."""
    both = int.from_bytes(total) + int.from_bytes(digest(part))
    return (both % (1 << 128)).to_bytes(16)


def canonical_json(item: Any) -> bytes:
    """Return an item as JSON, independent of the order of its fields; raises InvalidItem."""
    return _encode_sorted(decode(encode_item(item)))
