"""Between Shoal's words and PostgreSQL's columns: arrays out, rows in."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, assert_never

from shoal.core.model import (
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
from shoal.queue.intake import Entry, Intake, encode_item, read_payload
from shoal.queue.postgres.arrays import hexes, numbers, spans, texts

# How `entry_columns` and `outcome_columns` are to be read by the server, in their order.
ENTRY_TYPES = (
    *("text[]", "text[]", "text[]", "int[]"),
    *("text::bytea[]", "text::int[]", "text::int[]", "text::smallint[]", "text::int[]"),
    *("text::interval[]", "text::interval[]", "text::text[]", "text::text[]", "text::text[]"),
)
OUTCOME_TYPES = (
    *("text::bytea[]", "text::bigint[]", "text::text[]", "text::interval[]", "text::text[]"),
    *("text::interval[]", "text::interval[]", "text::int[]", "text::int[]"),
    *("text::int[]", "text::bytea[]", "text::text[]"),
    *("text::int[]", "text::bytea[]", "text::text[]", "text::text[]", "text::int[]"),
    *ENTRY_TYPES,
    *("bool[]", "text::int[]", "text::int[]", "text::bytea[]"),
)

DEAD_TYPES = ("bytea[]", "text", "text", "text", "text", "timestamptz", "timestamptz")

# Indexes into the kinds of table delta.
KINDS = ("pending", "delayed", "leased", "completed", "dead", "expired", "dropped", "items", "rejected")

TASK_ID = re.compile("[0-9a-f]{32}")

Row = Any


def entry_columns(entries: Sequence[Entry]) -> list[Any]:
    """Return the arguments of `shoal.put`: names once each, tasks pointing at them by position."""
    hosts: dict[str, int] = {}
    sections: dict[tuple[str, str], int] = {}
    bands: dict[int, int] = {}
    host_of: list[int] = []
    section_of: list[int] = []
    for entry in entries:
        host_of.append(hosts.setdefault(entry.host, len(hosts) + 1))
        section = sections.setdefault((entry.step, entry.partition), len(sections) + 1)
        section_of.append(section)
        bands[section] = bands.get(section, 0) | 1 << entry.priority
    return [
        list(hosts),
        [step for step, _ in sections],
        [partition for _, partition in sections],
        list(bands.values()),
        hexes([entry.id.hex() for entry in entries]),
        numbers(host_of),
        numbers(section_of),
        numbers([entry.priority for entry in entries]),
        numbers([entry.depth for entry in entries]),
        spans([entry.ttl for entry in entries]),
        spans([entry.delay or None for entry in entries]),
        texts([entry.url for entry in entries]),
        texts([entry.key for entry in entries]),
        texts([None if entry.payload == "{}" else entry.payload for entry in entries]),
    ]


def outcome_columns(outcomes: Sequence[Outcome], intake: Intake) -> list[Any]:
    """Return the arguments of `shoal.settle`; raises InvalidItem or InvalidTask before anything is sent."""
    items: list[tuple[int, str, str]] = []
    rejects: list[tuple[int, str, str, str]] = []
    follow: dict[bytes, tuple[int, Entry]] = {}
    again: list[tuple[int, Entry]] = []
    for position, outcome in enumerate(outcomes, 1):
        if not isinstance(outcome, Done):
            continue
        task = outcome.lease.task_id
        for data in outcome.items:
            items.append((position, task, encode_item(data)))
        for reject in outcome.rejects:
            rejects.append((position, task, encode_item(reject.data), reject.reason))
        for child in outcome.follow:
            brought = position, intake.entry(child)
            if follow.setdefault(brought[1].id, brought) is not brought:
                again.append(brought)
    others, also = _others(follow, again)
    sent = [*follow.values(), *others]
    letters, after, errors, pauses, delays = zip(*map(_head, outcomes), strict=True)
    return [
        hexes([outcome.lease.task_id for outcome in outcomes]),
        numbers([outcome.lease.token for outcome in outcomes]),
        texts(letters),
        spans(after),
        texts(errors),
        spans(pauses),
        spans(delays),
        numbers([len(outcome.items) if isinstance(outcome, Done) else 0 for outcome in outcomes]),
        numbers([len(outcome.rejects) if isinstance(outcome, Done) else 0 for outcome in outcomes]),
        numbers([position for position, _, _ in items]),
        hexes([task for _, task, _ in items]),
        texts([data for _, _, data in items]),
        numbers([position for position, _, _, _ in rejects]),
        hexes([task for _, task, _, _ in rejects]),
        texts([data for _, _, data, _ in rejects]),
        texts([reason for _, _, _, reason in rejects]),
        numbers([position for position, _ in sent]),
        *entry_columns([entry for _, entry in sent]),
        None if all(outcome.asked for outcome in outcomes) else [not outcome.asked for outcome in outcomes],
        numbers([position for position, _ in also]),
        numbers([place for _, place in also]),
        scraper_keys([entry for _, entry in sent]),
    ]


def scraper_keys(entries: Sequence[Entry]) -> str | None:
    """Return the column of the keys that all runs of a scraper share; None where no task has one."""
    if not any(entry.scraper_key for entry in entries):
        return None
    return texts([f"\\x{entry.scraper_key.hex()}" if entry.scraper_key else None for entry in entries])


def _others(
    first: Mapping[bytes, tuple[int, Entry]], again: Iterable[tuple[int, Entry]]
) -> tuple[list[tuple[int, Entry]], list[tuple[int, int]]]:
    """Return the tasks that have a known key and other fields, and which outcomes bring a known task too.

    All of them are told, for any outcome may turn out to be stale. Of one outcome only its first counts.
    """
    others: list[tuple[int, Entry]] = []
    also: list[tuple[int, int]] = []
    places = {key: place for place, key in enumerate(first, 1)} if again else {}
    last = {key: position for key, (position, _) in first.items()} if again else {}
    for position, entry in again:
        key = entry.id
        if last[key] == position:
            continue
        last[key] = position
        if entry == first[key][1]:
            also.append((position, places[key]))
        else:
            others.append((position, entry))
    return others, also


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
            return "F", outcome.after, None, None, None
        case _:
            assert_never(outcome)


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
        reason=row["reason"],
        settings=RunSettings(
            host_delay=row["host_delay"],
            per_host=row["per_host"],
            max_attempts=row["max_attempts"],
            ttl=row["ttl"],
            dedup=row["dedup"],
            dedup_steps=tuple(row["dedup_steps"]),
        ),
    )


def task_from(row: Row) -> Task:
    """Return a task from a row that has its columns."""
    payload, ask = read_payload(row["payload"])
    return Task(
        url=row["url"],
        step=row["step"],
        payload=payload,
        key=row["key"],
        partition=row["partition"],
        priority=row["priority"],
        ttl=row["ttl"],
        delay=row["delay"] or ZERO,
        depth=row["depth"],
        ask=ask,
    )


def lease_from(row: Row, run_id: str, lease: timedelta) -> Lease:
    """Return a lease from a row of a claim."""
    return Lease(
        run_id=run_id,
        task_id=row["task"].hex(),
        token=row["token"],
        task=task_from(row),
        attempt=row["attempt"],
        start_in=row["start_in"],
        deadline_in=row["start_in"] + lease,
        host_slowdown=row["slowdown"] or ZERO,
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
