"""The contents of messages: bundles of tasks as the scripts pack them, and dead letters as JSON."""

from collections.abc import Iterator
from typing import Any

import msgspec

from shoal.core.errors import ShoalError
from shoal.queue.intake import Intake
from shoal.queue.redis.records import (
    LetterRecord,
    PackedTask,
    dead_letter,
    expired_task,
    pack_task,
    read_element,
)

_encode_json = msgspec.json.Encoder().encode


class BundleHeader(msgspec.Struct, array_like=True, frozen=True):
    """The header of a bundle: each name once, tasks refer to them by position."""

    run_id: str
    number: int
    made: int
    hosts: list[str]
    step_groups: list[int]
    names: list[str]
    host_of: list[int]
    step_group_of: list[int]
    priorities: list[int]
    expires: list[int]
    dues: list[int]
    sizes: list[int]


class NotABundle(Exception):
    """A message is not a bundle of this run."""


_bundle = msgspec.msgpack.Decoder(tuple[BundleHeader, bytes]).decode
_letters = msgspec.msgpack.Decoder(tuple[list[tuple[int, str]], list[LetterRecord]]).decode


def read(body: bytes) -> tuple[BundleHeader, list[bytes]]:
    """Decode a bundle that Redis does not know, and split its tasks; raises NotABundle."""
    try:
        header, elements = _bundle(body)
        return header, list(_split(header.sizes, elements))
    except (msgspec.MsgspecError, ValueError) as error:
        raise NotABundle(f"it is no bundle of tasks: {error}") from error


def _split(sizes: list[int], elements: bytes) -> Iterator[bytes]:
    start = 0
    for size in sizes:
        yield elements[start : start + size]
        start += size
    if start != len(elements) or any(size < 1 for size in sizes):
        raise ValueError("its sizes do not add up")


def tasks(header: BundleHeader, elements: list[bytes], intake: Intake) -> list[PackedTask]:
    """Build the tasks of a bundle again, as if they had just been enqueued; raises NotABundle."""
    try:
        return [_pack_again(header, position, element, intake) for position, element in enumerate(elements)]
    except (msgspec.MsgspecError, ShoalError, ValueError, IndexError) as error:
        raise NotABundle(f"a task in it cannot be queued: {error}") from error


def _pack_again(header: BundleHeader, position: int, element: bytes, intake: Intake) -> PackedTask:
    row = read_element(element)
    host, step_group = header.hosts[header.host_of[position] - 1], header.step_group_of[position]
    step, partition = header.names[step_group - 1].split("\0")
    found = (header.priorities[position], host, 0, header.made, "", row.id, 0, 0, row.fields, None)
    entry = intake.entry(expired_task(LetterRecord(step_group, *found), [step, partition]).task)
    if (entry.id, entry.host) != (row.id, host):
        raise ValueError("its id does not match")
    expires = header.expires[position] if header.expires else 0
    due = header.dues[position] if header.dues else 0
    return pack_task(entry)._replace(
        ttl=max(1, expires - header.made) if expires else 0, delay=max(1, due - header.made) if due else 0
    )


def letters_as_json(body: bytes, run_id: str) -> list[bytes]:
    """Return dead letters for the dead-letter queue, each as a JSON object."""
    names, rows = _letters(body)
    step_groups = {step_group: name.split("\0") for step_group, name in names}
    return [_encode_json(_plain(row, step_groups, run_id)) for row in rows]


def _plain(row: LetterRecord, names: dict[int, list[str]], run_id: str) -> dict[str, Any]:
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
        "traceback": one.traceback,
        "ended_at": one.ended_at,
    }
