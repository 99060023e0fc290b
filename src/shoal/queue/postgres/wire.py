"""Convert between Shoal's model and PostgreSQL's columns: arrays out, rows in."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, assert_never, cast

from shoal.core.failures import error_text
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
)
from shoal.queue.contract import LetterEdit
from shoal.queue.intake import Intake, QueuedTask, encode_item, read_payload


def int_array(column: Iterable[int]) -> str:
    """Return an array literal of integers."""
    return f"{{{','.join(map(str, column))}}}"


def bool_array(column: Iterable[bool]) -> str:
    """Return an array literal of truth values."""
    return f"{{{','.join('t' if value else 'f' for value in column)}}}"


def bytes_array(column: Iterable[str]) -> str:
    """Return an array literal of bytes given as hexadecimal digits."""
    body = '","\\\\x'.join(column)
    return f'{{"\\\\x{body}"}}' if body else "{}"


def text_array(column: Sequence[str | None]) -> str | None:
    """Return an array literal of texts; None if all are None."""
    if not column:
        return "{}"
    if None in column:
        return f"{{{','.join(map(_text, column))}}}" if any(text is not None for text in column) else None
    # Escaped all at once. No text has the separator in it: PostgreSQL stores no NUL, and refuses it here.
    body = "\0".join(cast("Sequence[str]", column))
    if body.count("\0") != len(column) - 1:
        return f"{{{','.join(map(_text, column))}}}"
    body = body.replace("\\", "\\\\").replace('"', '\\"').replace("\0", '","')
    return f'{{"{body}"}}'


def interval_array(column: Sequence[timedelta | None]) -> str | None:
    """Return an array literal of durations; None if all are None."""
    if not any(duration is not None for duration in column) and column:
        return None
    return f"{{{','.join(map(_interval, column))}}}"


def _text(text: str | None) -> str:
    if text is None:
        return "NULL"
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    if '"' in text:
        text = text.replace('"', '\\"')
    return f'"{text}"'


def _interval(duration: timedelta | None) -> str:
    return "NULL" if duration is None else f'"{duration.total_seconds():.6f} s"'


# The parameter types of `entry_columns` and `outcome_columns`, in their order. Arrays are sent as text:
# asyncpg looks up other array types than text[] in the catalog, for each connection, in 11 ms of the server.
ENTRY_TYPES = (
    *("text[]", "text[]", "text[]", "text::int[]"),
    *("text::bytea[]", "text::int[]", "text::int[]", "text::smallint[]", "text::int[]"),
    *("text::interval[]", "text::interval[]", "text::text[]", "text::text[]", "text::text[]"),
)
OUTCOME_TYPES = (
    *("text::bytea[]", "text::bigint[]", "text::text[]", "text::interval[]", "text::text[]"),
    *("text::interval[]", "text::interval[]", "text::int[]", "text::int[]"),
    *("text::int[]", "text::bytea[]", "text::text[]"),
    *("text::int[]", "text::bytea[]", "text::text[]", "text::text[]", "text::int[]"),
    *ENTRY_TYPES,
    *("text::bool[]", "text::int[]", "text::int[]", "text::bytea[]"),
)

EDIT_TYPES = ("text::bytea[]", "timestamptz[]", "int[]", "text[]", "text[]", *ENTRY_TYPES)

DEAD_TYPES = ("bytea[]", "text", "text", "text", "text", "timestamptz", "timestamptz")

# Indexes into the kinds of table delta.
KINDS = ("pending", "delayed", "leased", "completed", "dead", "expired", "dropped", "items", "rejected")

TASK_ID = re.compile("[0-9a-f]{32}")

Row = Any


def entry_columns(entries: Sequence[QueuedTask]) -> list[Any]:
    """Return the arguments of `shoal.put`: distinct names, and tasks that refer to them by position."""
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
        int_array(bands.values()),
        bytes_array([entry.id.hex() for entry in entries]),
        int_array(host_of),
        int_array(section_of),
        int_array([entry.priority for entry in entries]),
        int_array([entry.depth for entry in entries]),
        interval_array([entry.ttl for entry in entries]),
        interval_array([entry.delay or None for entry in entries]),
        text_array([entry.url for entry in entries]),
        text_array([entry.key for entry in entries]),
        text_array([None if entry.payload == "{}" else entry.payload for entry in entries]),
    ]


def outcome_columns(outcomes: Sequence[Outcome], intake: Intake) -> list[Any]:
    """Return the arguments of `shoal.settle`; raises InvalidItem or InvalidTask before anything is sent."""
    items: list[tuple[int, str, str]] = []
    rejects: list[tuple[int, str, str, str]] = []
    follow: dict[bytes, tuple[int, QueuedTask]] = {}
    repeated: list[tuple[int, QueuedTask]] = []
    for position, outcome in enumerate(outcomes, 1):
        if not isinstance(outcome, Done):
            continue
        task = outcome.lease.task_id
        for data in outcome.items:
            items.append((position, task, encode_item(data)))
        for reject in outcome.rejects:
            rejects.append((position, task, encode_item(reject.data), reject.reason))
        for child in outcome.follow:
            follow_up = position, intake.entry(child)
            if follow.setdefault(follow_up[1].id, follow_up) is not follow_up:
                repeated.append(follow_up)
    others, also = _split_repeated(follow, repeated)
    sent = [*follow.values(), *others]
    letters, after, errors, pauses, delays = zip(*map(_outcome_fields, outcomes), strict=True)
    return [
        bytes_array([outcome.lease.task_id for outcome in outcomes]),
        int_array([outcome.lease.token for outcome in outcomes]),
        text_array(letters),
        interval_array(after),
        text_array(errors),
        interval_array(pauses),
        interval_array(delays),
        int_array([len(outcome.items) if isinstance(outcome, Done) else 0 for outcome in outcomes]),
        int_array([len(outcome.rejects) if isinstance(outcome, Done) else 0 for outcome in outcomes]),
        int_array([position for position, _, _ in items]),
        bytes_array([task for _, task, _ in items]),
        text_array([data for _, _, data in items]),
        int_array([position for position, _, _, _ in rejects]),
        bytes_array([task for _, task, _, _ in rejects]),
        text_array([data for _, _, data, _ in rejects]),
        text_array([reason for _, _, _, reason in rejects]),
        int_array([position for position, _ in sent]),
        *entry_columns([entry for _, entry in sent]),
        None
        if all(outcome.asked for outcome in outcomes)
        else bool_array(not each.asked for each in outcomes),
        int_array([position for position, _ in also]),
        int_array([place for _, place in also]),
        scraper_keys([entry for _, entry in sent]),
    ]


def scraper_keys(entries: Sequence[QueuedTask]) -> str | None:
    """Return the keys that all runs of a scraper share as an array literal; None if no task has one."""
    if not any(entry.scraper_key for entry in entries):
        return None
    return text_array([f"\\x{entry.scraper_key.hex()}" if entry.scraper_key else None for entry in entries])


def _split_repeated(
    first: Mapping[bytes, tuple[int, QueuedTask]], repeated: Iterable[tuple[int, QueuedTask]]
) -> tuple[list[tuple[int, QueuedTask]], list[tuple[int, int]]]:
    """Return tasks with a repeated key but other fields, and the outcomes that repeat an equal task.

    All of them are sent, because any outcome may turn out to be stale. Only the first per outcome counts.
    """
    others: list[tuple[int, QueuedTask]] = []
    also: list[tuple[int, int]] = []
    places = {key: place for place, key in enumerate(first, 1)} if repeated else {}
    last = {key: position for key, (position, _) in first.items()} if repeated else {}
    for position, entry in repeated:
        key = entry.id
        if last[key] == position:
            continue
        last[key] = position
        if entry == first[key][1]:
            also.append((position, places[key]))
        else:
            others.append((position, entry))
    return others, also


def _outcome_fields(
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
            return "F", outcome.after, None, None, outcome.slow_host
        case _:
            assert_never(outcome)


def edit_columns(edits: Sequence[LetterEdit], entries: Sequence[QueuedTask]) -> list[Any]:
    """Return the arguments of `shoal.edit_dead`: how each letter was, who edits it, and its new task."""
    return [
        bytes_array([edit.letter.id for edit in edits]),
        [edit.letter.buried_at for edit in edits],
        [len(edit.letter.history) for edit in edits],
        [edit.by for edit in edits],
        [edit.note for edit in edits],
        *entry_columns(entries),
    ]


def filter_columns(ids: Sequence[str] | None, where: DeadFilter) -> list[Any]:
    """Return the filter arguments of the dead-letter queries."""
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
    """Return the run of a row."""
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
    """Return the task of a row."""
    payload, options, found_on = read_payload(row["payload"])
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
        request=options,
        found_on=found_on,
    )


def lease_from(row: Row, run_id: str, lease: timedelta) -> Lease:
    """Return the lease of a row of a claim."""
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
    """Return the fields of Counts from (kind, count) pairs; a kind may occur more than once."""
    fields = dict.fromkeys(KINDS, 0)
    for kind, count in pairs:
        fields[KINDS[kind]] += int(count)
    return fields


def counts(pairs: Iterable[tuple[int, int]]) -> Counts:
    """Return Counts from (kind, count) pairs."""
    return Counts(**counts_from(pairs))
