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
from shoal.queue.intake import Intake, QueuedTask, StoredFields, encode_item, read_payload


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


def joined_texts(column: Sequence[str | None]) -> str | None:
    """Return texts as one, which the server splits in a third of the time of an array; None if all are None.

    They are JSON, canonical URLs and checked keys: not empty, and without control characters.
    """
    if None in column:
        if not any(column):
            return None
        column = [IS_NULL if text is None else text for text in column]
    body = SEPARATOR.join(cast("Sequence[str]", column))
    if body.count(SEPARATOR) < max(len(column), 1):
        return body
    # Of JSON that was not encoded here: it may have control characters, though it must not.
    return SEPARATOR.join(str(text).replace(SEPARATOR, "\\u0001") for text in column)


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


SEPARATOR, IS_NULL = "\x01", "\x02"
# The types of `joined_texts` and of texts of one character, as arguments of functions.
JOINED = "string_to_array({}::text, E'\\x01', E'\\x02')"
LETTERS = "string_to_array({}::text, NULL)"

# The parameter types of `entry_columns` and `outcome_columns`, in their order. Arrays are sent as text:
# asyncpg looks up other array types than text[] in the catalog, for each connection, in 11 ms of the server.
ENTRY_TYPES = (
    *("text[]", "text[]", "text[]", "text::int[]"),
    *("text::bytea[]", "text::int[]", "text::int[]", "text::smallint[]", "text::int[]"),
    *("text::interval[]", "text::interval[]", JOINED, JOINED, JOINED),
)
OUTCOME_TYPES = (
    *("text::bytea[]", "text::bigint[]", LETTERS, "text::interval[]", "text::text[]"),
    *("text::interval[]", "text::interval[]", "text::int[]", "text::int[]"),
    *("text::int[]", "text::bytea[]", JOINED),
    *("text::int[]", "text::bytea[]", JOINED, "text::text[]", "text::int[]"),
    *ENTRY_TYPES,
    *("text::bool[]", "text::int[]", "text::int[]", "text::bytea[]"),
)

EDIT_TYPES = ("text::bytea[]", "timestamptz[]", "int[]", "text[]", "text[]", *ENTRY_TYPES)

DEAD_TYPES = ("bytea[]", "text", "text", "text", "text", "timestamptz", "timestamptz")

# Of a claim, as `leases_from` reads them. To decode a duration takes a microsecond, and most are zero.
LEASE_COLUMNS = (
    *("task", "token", "attempt", "nullif(start_in, interval '0')", "nullif(slowdown, interval '0')"),
    *("url", "step", "key", "partition", "priority", "ttl", "delay", "depth", "payload"),
)
LEASE_WIDTH = len(LEASE_COLUMNS)

# Indexes into the kinds of table delta.
KINDS = ("pending", "delayed", "leased", "completed", "dead", "expired", "dropped", "items", "rejected")

TASK_ID = re.compile("[0-9a-f]{32}")

NOT_STORED = StoredFields()

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
        joined_texts([entry.url for entry in entries]),
        joined_texts([entry.key for entry in entries]),
        joined_texts([None if entry.payload == "{}" else entry.payload for entry in entries]),
    ]


def outcome_columns(outcomes: Sequence[Outcome], intake: Intake) -> list[Any]:
    """Return the arguments of `shoal.settle`; raises InvalidItem or InvalidTask before anything is sent."""
    leases = [outcome.lease for outcome in outcomes]
    ids = [lease.task_id for lease in leases]
    results = [outcome if isinstance(outcome, Done) else None for outcome in outcomes]
    items_of: list[int] = []
    items: list[str] = []
    rejects: list[tuple[int, str, str]] = []
    follow: dict[bytes, tuple[int, QueuedTask]] = {}
    repeated: list[tuple[int, QueuedTask]] = []
    for position, outcome in enumerate(results, 1):
        if outcome is None:
            continue
        for data in outcome.items:
            items_of.append(position)
            items.append(encode_item(data))
        for reject in outcome.rejects:
            rejects.append((position, encode_item(reject.data), reject.reason))
        for child in outcome.follow:
            follow_up = position, intake.follow_up(child)
            if follow.setdefault(follow_up[1].id, follow_up) is not follow_up:
                repeated.append(follow_up)
    others, also = _split_repeated(follow, repeated)
    sent = [*follow.values(), *others]
    return [
        bytes_array(ids),
        int_array([lease.token for lease in leases]),
        *_ending_columns(outcomes),
        int_array([len(outcome.items) if outcome else 0 for outcome in results]),
        int_array([len(outcome.rejects) if outcome else 0 for outcome in results]),
        int_array(items_of),
        None,  # the tasks of items and rejects are those of their outcomes
        joined_texts(items),
        int_array([position for position, _, _ in rejects]),
        None,
        joined_texts([data for _, data, _ in rejects]),
        text_array([reason for _, _, reason in rejects]),
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


def _ending_columns(outcomes: Sequence[Outcome]) -> list[str | None]:
    """Return the letters of outcomes, delays, errors, and the pauses and slowdowns of hosts."""
    if all(isinstance(one, Done) and one.pause_host is one.slow_host is None for one in outcomes):
        return ["D" * len(outcomes), None, None, None, None]
    letters, after, errors, pauses, delays = zip(*map(_outcome_fields, outcomes), strict=True)
    return [
        "".join(letters),
        interval_array(after),
        text_array(errors),
        interval_array(pauses),
        interval_array(delays),
    ]


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
    payload, options = read_payload(row["payload"])
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
    )


def leases_from(rows: Iterable[Row], run_id: str, lease: timedelta, lead: timedelta) -> list[Lease]:
    """Return the leases of the rows of a claim, which begin with `LEASE_COLUMNS`."""
    leases = []
    for row in rows:
        task_id, token, attempt, start_in, slowdown, *task_fields = row[:LEASE_WIDTH]
        url, step, key, partition, priority, ttl, delay, depth, stored = task_fields
        payload, request = NOT_STORED if stored is None else read_payload(stored)
        task = Task(
            url=url,
            step=step,
            payload=payload,
            key=key,
            partition=partition,
            priority=priority,
            ttl=ttl,
            delay=delay or ZERO,
            depth=depth,
            request=request,
        )
        start = (start_in or ZERO) + (ZERO if url is None else lead)  # a task without a host starts at once
        leases.append(
            Lease(
                run_id=run_id,
                task_id=task_id.hex(),
                token=token,
                task=task,
                attempt=attempt,
                start_in=start,
                deadline_in=start + lease,
                host_slowdown=slowdown or ZERO,
            )
        )
    return leases


def counts_from(pairs: Iterable[tuple[int, int]]) -> dict[str, Any]:
    """Return the fields of Counts from (kind, count) pairs; a kind may occur more than once."""
    fields = dict.fromkeys(KINDS, 0)
    for kind, count in pairs:
        fields[KINDS[kind]] += int(count)
    return fields


def counts(pairs: Iterable[tuple[int, int]]) -> Counts:
    """Return Counts from (kind, count) pairs."""
    return Counts(**counts_from(pairs))
