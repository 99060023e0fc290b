"""Parcels: follow-up tasks for another server, packed into a task that the settling server stores.

Such a task is stored in the transaction that completes the page, so the follow-up tasks are accepted with it
or not at all.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec

from shoal.core.errors import InvalidTask
from shoal.core.model import OUTBOX_STEP, Lease, Task
from shoal.queue.intake import MAX_PAYLOAD, QueuedTask, stored_fields
from shoal.queue.sharded.members import Member

TASKS = "tasks"


@dataclass(frozen=True, slots=True)
class OutgoingParcel:
    """Follow-up tasks for another server, and the task that carries them until they are there."""

    owner: Member
    carrier: Task
    tasks: Sequence[Task]
    ids: frozenset[bytes]  # of the tasks

    @property
    def key(self) -> str:
        """The key of the carrier, which no other has."""
        return self.carrier.key or ""


def check_step(task: Task) -> None:
    """Raise InvalidTask for a task of a user that has the step of parcels."""
    if task.step == OUTBOX_STEP:
        raise InvalidTask(task, f"step {OUTBOX_STEP!r} is reserved for Shoal. Choose another name")


def pack(
    lease: Lease, by_owner: Mapping[Member, Iterable[tuple[Task, QueuedTask]]]
) -> Iterator[OutgoingParcel]:
    """Pack the follow-up tasks of a lease, those of each server in as few parcels as their size allows."""
    chunks = ((owner, chunk) for owner, entries in by_owner.items() for chunk in _chunks(entries))
    # The token makes the key new for each lease: a parcel is never a duplicate.
    for number, (owner, chunk) in enumerate(chunks):
        carrier = Task(
            step=OUTBOX_STEP,
            partition=OUTBOX_STEP,
            key=f"{lease.task_id} {lease.token} {number}",
            payload={TASKS: [_fields(entry) for _, entry in chunk]},
        )
        yield OutgoingParcel(
            owner, carrier, [task for task, _ in chunk], frozenset(entry.id for _, entry in chunk)
        )


def unpack(parcel: Task) -> list[Task]:
    """Return the tasks in a parcel."""
    return [_task(*fields) for fields in parcel.payload[TASKS]]


def _chunks(entries: Iterable[tuple[Task, QueuedTask]]) -> Iterator[list[tuple[Task, QueuedTask]]]:
    chunk: list[tuple[Task, QueuedTask]] = []
    size = 0
    for task, entry in entries:
        chunk.append((task, entry))
        size += len(entry.payload) + len(entry.url or "") + len(entry.key or "") + 200
        if size > MAX_PAYLOAD:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _fields(entry: QueuedTask) -> list[Any]:
    return [
        entry.url,
        entry.step,
        msgspec.json.decode(entry.payload),
        entry.key,
        entry.partition,
        entry.priority,
        _micros(entry.ttl),
        _micros(entry.delay),
        entry.depth,
    ]


def _task(
    url: str | None,
    step: str,
    stored: Any,
    key: str | None,
    partition: str,
    priority: int,
    ttl: int | None,
    delay: int,
    depth: int,
) -> Task:
    fields = stored_fields(stored)
    return Task(
        url=url,
        step=step,
        payload=fields.payload,
        request=fields.request,
        key=key,
        partition=partition,
        priority=priority,
        ttl=None if ttl is None else timedelta(microseconds=ttl),
        delay=timedelta(microseconds=delay),
        depth=depth,
    )


def _micros(span: timedelta | None) -> int | None:
    return None if span is None else span // timedelta(microseconds=1)
