"""Settle outcomes: one call for each run, with a column for each field of its outcomes."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, assert_never

from shoal.core.errors import QueueError
from shoal.core.failures import error_text, failure_text
from shoal.core.model import Bury, Done, Fate, Outcome, Release, Retry
from shoal.queue.intake import PreparedOutcome, QueuedTask, in_runs
from shoal.queue.postgres.arrays import (
    JOINED,
    LETTERS,
    bool_array,
    bytes_array,
    int_array,
    interval_array,
    joined_texts,
    text_array,
)
from shoal.queue.postgres.enqueue import ENTRY_TYPES, entry_columns, scraper_keys
from shoal.queue.postgres.server import PostgresServer
from shoal.queue.postgres.sql import ONCE, QUERIES, call

# The parameter types of `outcome_columns`, in their order.
OUTCOME_TYPES = (
    *("text::bytea[]", "text::bigint[]", LETTERS, "text::interval[]", "text::text[]"),
    *("text::interval[]", "text::interval[]", "text::int[]", "text::int[]"),
    *("text::int[]", "text::bytea[]", JOINED),
    *("text::int[]", "text::bytea[]", JOINED, "text::text[]", "text::int[]"),
    *ENTRY_TYPES,
    *("text::bool[]", "text::int[]", "text::int[]", "text::bytea[]"),
)
SETTLE = call(
    "settle",
    *ONCE,
    *OUTCOME_TYPES,
    # Nothing if every outcome was accepted: there are as many letters.
    columns="CASE WHEN cardinality(settle) < length($6::text) THEN settle::text[] END AS settle",
)


async def settle(server: PostgresServer, outcomes: Sequence[PreparedOutcome]) -> list[Fate]:
    """Apply outcomes; of two for the same lease, the second is STALE."""
    fates = [Fate.STALE] * len(outcomes)
    for run_id, positions in in_runs(outcomes):
        rows = await server.once(SETTLE, run_id, *outcome_columns([outcomes[p] for p in positions]))
        accepted = rows[0][0]
        for position in positions if accepted is None else (positions[int(n) - 1] for n in accepted):
            fates[position] = Fate.ACCEPTED
    await _add_tracebacks(server, outcomes, fates)
    return fates


async def _add_tracebacks(
    server: PostgresServer, outcomes: Sequence[PreparedOutcome], fates: Sequence[Fate]
) -> None:
    """Add tracebacks to the history of tasks that were just buried."""
    buried = [
        one.outcome
        for one, fate in zip(outcomes, fates, strict=True)
        if fate is Fate.ACCEPTED and isinstance(one.outcome, Bury) and one.outcome.traceback
    ]
    if not buried:
        return
    # The outcomes are stored: an error here must not let the caller settle them again.
    with suppress(QueueError):
        await server.fetch(
            QUERIES["add_tracebacks"],
            [bytes.fromhex(outcome.lease.task_id) for outcome in buried],
            [outcome.lease.token for outcome in buried],
            [failure_text(outcome) for outcome in buried],
        )


def outcome_columns(prepared: Sequence[PreparedOutcome]) -> list[Any]:
    """Return the arguments of `shoal.settle`."""
    outcomes = [one.outcome for one in prepared]
    leases = [outcome.lease for outcome in outcomes]
    items_of: list[int] = []
    items: list[str] = []
    rejects: list[tuple[int, str, str]] = []
    follow: dict[bytes, tuple[int, QueuedTask]] = {}
    repeated: list[tuple[int, QueuedTask]] = []
    for position, one in enumerate(prepared, 1):
        if one.items:
            items_of += [position] * len(one.items)
            items += one.items
        if one.rejects:
            rejects += [(position, *reject) for reject in one.rejects]
        for entry in one.follow:
            follow_up = position, entry
            if follow.setdefault(entry.id, follow_up) is not follow_up:
                repeated.append(follow_up)
    others, also = _split_repeated(follow, repeated)
    sent = [*follow.values(), *others]
    return [
        bytes_array([lease.task_id for lease in leases]),
        int_array([lease.token for lease in leases]),
        *_ending_columns(outcomes),
        int_array([len(one.items) for one in prepared]),
        int_array([len(one.rejects) for one in prepared]),
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
