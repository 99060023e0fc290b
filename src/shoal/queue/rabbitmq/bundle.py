"""What is in a message: a bundle of tasks as the scripts make them, or a dead letter as JSON for others."""

from collections.abc import Iterator
from typing import Any

import msgspec

from shoal.queue.redis.wire import Fields, LetterRow, Parcel, Past, dead_letter

_encode_json = msgspec.json.Encoder().encode


class Header(msgspec.Struct, array_like=True, frozen=True):
    """What stands in front of a bundle's tasks: names once each, tasks pointing at them by position."""

    run_id: str
    number: int
    made: int
    hosts: list[str]
    sections: list[int]
    names: list[str]
    host_of: list[int]
    section_of: list[int]
    priorities: list[int]
    expires: list[int]
    dues: list[int]
    sizes: list[int]


class Element(msgspec.Struct, array_like=True, frozen=True):
    """A task as it is kept while it waits."""

    id: bytes
    attempts: int
    size: int
    fields: Fields
    history: list[Past] | None


class NotABundle(Exception):
    """A message is not what Shoal puts into its queues."""


_bundle = msgspec.msgpack.Decoder(tuple[Header, bytes]).decode
_element = msgspec.msgpack.Decoder(Element).decode
_letters = msgspec.msgpack.Decoder(tuple[list[tuple[int, str]], list[LetterRow]]).decode


def read(body: bytes) -> tuple[Header, list[Parcel]]:
    """Read a bundle that Redis does not know, trusting nothing; raises NotABundle."""
    try:
        header, elements = _bundle(body)
        return header, list(_parcels(header, elements))
    except (msgspec.MsgspecError, ValueError, IndexError) as error:
        raise NotABundle(f"it is no bundle of tasks: {error}") from error


def _parcels(header: Header, elements: bytes) -> Iterator[Parcel]:
    start = 0
    for place, size in enumerate(header.sizes):
        element = elements[start : start + size]
        start += size
        yield _parcel(header, place, element)
    if start != len(elements):
        raise ValueError("its sizes do not add up")


def _parcel(header: Header, place: int, element: bytes) -> Parcel:
    row = _element(b"\x95" + element)
    expires = header.expires[place] if header.expires else 0
    due = header.dues[place] if header.dues else 0
    priority = header.priorities[place]
    name = header.names[header.section_of[place] - 1]
    # The scripts cut an element at fixed places, so it must be packed in exactly this way.
    packed = element[:2] == b"\xc4\x10" and element[18:19] == b"\xcd" and element[21:22] == b"\xce"
    if len(row.id) != 16 or not packed or not 0 <= priority <= 9 or name.count("\0") != 1:
        raise ValueError("a task in it is malformed")
    return Parcel(
        header.hosts[header.host_of[place] - 1],
        name,
        str(int.from_bytes(row.id[8:], "big", signed=True)),
        priority,
        max(1, expires - header.made) if expires else 0,
        max(1, due - header.made) if due else 0,
        element,
    )


def letters_as_json(body: bytes, run_id: str) -> list[bytes]:
    """Return dead letters for the dead-letter queue, each as a JSON object."""
    names, rows = _letters(body)
    sections = {section: name.split("\0") for section, name in names}
    return [_encode_json(_plain(row, sections, run_id)) for row in rows]


def _plain(row: LetterRow, names: dict[int, list[str]], run_id: str) -> dict[str, Any]:
    letter = dead_letter(row, names)
    return {
        "run_id": run_id,
        "id": letter.id,
        "url": letter.task.url,
        "step": letter.task.step,
        "partition": letter.task.partition,
        "payload": dict(letter.task.payload),
        "attempts": letter.attempts,
        "error": letter.error,
        "history": [_attempt(one) for one in letter.history],
        "buried_at": letter.buried_at,
    }


def _attempt(one: Any) -> dict[str, Any]:
    return {
        "attempt": one.attempt,
        "worker_id": one.worker_id,
        "error": one.error,
        "ended_at": one.ended_at,
    }
