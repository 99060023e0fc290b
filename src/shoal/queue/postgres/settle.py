"""Settle outcomes: one call for each run, with a column for each field of its outcomes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shoal.core.model import Done, Fate, Outcome
from shoal.queue.intake import PreparedOutcome, QueuedTask, in_runs, outcome_fields
from shoal.queue.postgres.arrays import CHARACTERS, JOINED, joined_texts, unless_all_none
from shoal.queue.postgres.enqueue import ENTRY_TYPES, entry_columns, scraper_keys
from shoal.queue.postgres.server import PostgresServer
from shoal.queue.postgres.sql import ONCE, call

# The parameter types of `outcome_columns`, in their order.
OUTCOME_TYPES = (
    *("bytea[]", "bigint[]", CHARACTERS, "interval[]", "text[]", "interval[]", "interval[]"),
    *("int[]", "int[]", "int[]", JOINED, "int[]", JOINED, "text[]", "int[]"),
    *ENTRY_TYPES,
    *("bool[]", "int[]", "int[]", "bytea[]"),
)
SETTLE = call(
    "settle",
    *ONCE,
    *OUTCOME_TYPES,
    # Nothing if every outcome was accepted: there are as many codes.
    columns="CASE WHEN cardinality(settle) < length($6::text) THEN settle END AS settle",
)


async def settle(server: PostgresServer, outcomes: Sequence[PreparedOutcome]) -> list[Fate]:
    """Apply outcomes; of two for the same lease, the second is STALE."""
    fates = [Fate.STALE] * len(outcomes)
    for run_id, positions in in_runs(outcomes):
        rows = await server.once(SETTLE, run_id, *outcome_columns([outcomes[p] for p in positions]))
        accepted = rows[0][0]
        for position in positions if accepted is None else (positions[n - 1] for n in accepted):
            fates[position] = Fate.ACCEPTED
    return fates


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
        [bytes.fromhex(lease.task_id) for lease in leases],
        [lease.token for lease in leases],
        *_ending_columns(outcomes),
        [len(one.items) for one in prepared],
        [len(one.rejects) for one in prepared],
        items_of,
        joined_texts(items),
        [position for position, _, _ in rejects],
        joined_texts([data for _, data, _ in rejects]),
        [reason for _, _, reason in rejects],
        [position for position, _ in sent],
        *entry_columns([entry for _, entry in sent]),
        unless_all_none([None if outcome.asked else True for outcome in outcomes]),
        [position for position, _ in also],
        [place for _, place in also],
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


def _ending_columns(outcomes: Sequence[Outcome]) -> list[Any]:
    """Return the codes of outcomes, delays, errors, and the pauses and slowdowns of hosts."""
    if all(isinstance(one, Done) and one.pause_host is one.slow_host is None for one in outcomes):
        return ["D" * len(outcomes), None, None, None, None]
    codes, after, errors, pauses, delays = zip(*map(outcome_fields, outcomes), strict=True)
    return ["".join(codes), *map(unless_all_none, (after, errors, pauses, delays))]
