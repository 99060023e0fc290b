"""Between Shoal's words and PostgreSQL's columns: arrays out, rows in."""

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, assert_never

from shoal.core.model import (
    NOTHING,
    ZERO,
    Bury,
    Counts,
    DeadFilter,
    Done,
    Lease,
    Outcome,
    Release,
    Retry,
    Run,
    RunSettings,
    RunState,
    Task,
    error_text,
)
from shoal.queue.intake import Entry, Intake, decode, encode_item

# Indexes into the kinds of table delta.
KINDS = ("pending", "delayed", "leased", "completed", "dead", "expired", "dropped", "items", "rejected")

TASK_ID = re.compile("[0-9a-f]{32}")

Row = Any
Columns = list[list[Any]]


def entry_columns(entries: Sequence[Entry]) -> Columns:
    """Return the arguments of `shoal.put`: names once each, tasks pointing at them by position."""
    hosts: dict[str, int] = {}
    sections: dict[tuple[str, str], int] = {}
    bands: list[int] = []
    host_of: list[int] = []
    section_of: list[int] = []
    for entry in entries:
        host_of.append(hosts.setdefault(entry.host, len(hosts) + 1))
        position = sections.setdefault((entry.step, entry.partition), len(sections) + 1)
        if position > len(bands):
            bands.append(0)
        bands[position - 1] |= 1 << entry.priority
        section_of.append(position)
    return [
        list(hosts),
        [step for step, _ in sections],
        [partition for _, partition in sections],
        bands,
        [entry.id for entry in entries],
        host_of,
        section_of,
        [entry.priority for entry in entries],
        [entry.depth for entry in entries],
        [entry.ttl for entry in entries],
        [entry.delay or None for entry in entries],
        [entry.url for entry in entries],
        [entry.key for entry in entries],
        [None if entry.payload == "{}" else entry.payload for entry in entries],
    ]


def outcome_columns(outcomes: Sequence[Outcome], intake: Intake) -> Columns:
    """Return the arguments of `shoal.settle`; raises InvalidItem or InvalidTask before anything is sent."""
    heads: list[tuple[Any, ...]] = []
    items: list[tuple[int, bytes, str]] = []
    rejects: list[tuple[int, bytes, str, str]] = []
    follow: dict[bytes, tuple[int, Entry]] = {}
    for position, outcome in enumerate(outcomes, 1):
        task = bytes.fromhex(outcome.lease.task_id)
        letter, after, error, pause, slow = _head(outcome)
        counts = (0, 0)
        if isinstance(outcome, Done):
            items.extend((position, task, encode_item(data)) for data in outcome.items)
            rejects.extend((position, task, encode_item(r.data), r.reason) for r in outcome.rejects)
            counts = (len(outcome.items), len(outcome.rejects))
            for child in outcome.follow:
                entry = intake.entry(child)
                follow.setdefault(entry.id, (position, entry))
        heads.append((task, outcome.lease.token, letter, after, error, pause, slow, *counts))
    return [
        *_transposed(heads, 9),
        *_transposed(items, 3),
        *_transposed(rejects, 4),
        [position for position, _ in follow.values()],
        *entry_columns([entry for _, entry in follow.values()]),
    ]


def _head(
    outcome: Outcome,
) -> tuple[str, timedelta | None, str | None, timedelta | None, timedelta | None]:
    match outcome:
        case Done():
            return "D", None, None, outcome.pause_host, outcome.slow_host
        case Retry():
            return "R", outcome.after, error_text(outcome.error), outcome.pause_host, outcome.slow_host
        case Bury():
            return "B", None, error_text(outcome.error), outcome.pause_host, outcome.slow_host
        case Release():
            return "F", None, None, None, None
        case _:
            assert_never(outcome)


def _transposed(rows: Sequence[tuple[Any, ...]], width: int) -> Columns:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


def filter_columns(ids: Sequence[str] | None, where: DeadFilter) -> list[Any]:
    """Return the arguments by which a query picks dead letters."""
    return [
        None if ids is None else [bytes.fromhex(name) for name in ids if TASK_ID.fullmatch(name)],
        where.step,
        where.partition,
        where.host,
        where.error,
        where.buried_before,
        where.buried_after,
    ]


def run_from(row: Row) -> Run:
    """Return a run from its row."""
    return Run(
        id=row["run_id"],
        scraper=row["scraper"],
        state=RunState(row["state"]),
        started_at=row["started_at"],
        settings=RunSettings(
            host_delay=row["host_delay"],
            per_host=row["per_host"],
            max_attempts=row["max_attempts"],
            ttl=row["ttl"],
        ),
    )


def task_from(row: Row) -> Task:
    """Return a task from a row that has its columns."""
    payload = row["payload"]
    return Task(
        url=row["url"],
        step=row["step"],
        payload=NOTHING if payload is None else decode(payload),
        key=row["key"],
        partition=row["partition"],
        priority=row["priority"],
        ttl=row["ttl"],
        delay=row["delay"] or ZERO,
        depth=row["depth"],
    )


def lease_from(row: Row, run_id: str) -> Lease:
    """Return a lease from a row of a claim."""
    return Lease(
        run_id=run_id,
        task_id=row["task"].hex(),
        token=row["token"],
        task=task_from(row),
        attempt=row["attempt"],
        start_in=row["start_in"],
        deadline_in=row["deadline_in"],
    )


def counts_from(pairs: Iterable[tuple[int, int]]) -> dict[str, int]:
    """Return the fields of Counts from (kind, count) pairs; a kind may come more than once."""
    fields = dict.fromkeys(KINDS, 0)
    for kind, count in pairs:
        fields[KINDS[kind]] += int(count)
    return fields


def counts(pairs: Iterable[tuple[int, int]]) -> Counts:
    """Return Counts from (kind, count) pairs."""
    return Counts(**counts_from(pairs))
