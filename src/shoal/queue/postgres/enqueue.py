"""Enqueue tasks, but no duplicate: each key of a (run, step) once, with `dedup` once for all runs."""

from collections.abc import Sequence
from typing import Any

from shoal.core.model import EnqueueReport
from shoal.queue.intake import QueuedTask
from shoal.queue.postgres.arrays import JOINED, joined_texts, unless_all_none
from shoal.queue.postgres.server import PostgresServer
from shoal.queue.postgres.sql import ONCE, QUERIES, call

FORGET_BATCH = 1_000  # keys that one call forgets

# The parameter types of `entry_columns`, in their order.
ENTRY_TYPES = (
    *("text[]", "text[]", "text[]", "int[]"),
    *("bytea[]", "int[]", "int[]", "smallint[]", "int[]"),
    *("interval[]", "interval[]", JOINED, JOINED, JOINED),
)
ENQUEUE = call("enqueue", *ONCE, *ENTRY_TYPES, "bytea[]")


async def enqueue(server: PostgresServer, run_id: str, batch: Sequence[QueuedTask]) -> EnqueueReport:
    """Add tasks to a run; raises UnknownRun."""
    first_of_id = {entry.id: entry for entry in reversed(batch)}
    if not first_of_id:
        return EnqueueReport()
    entries = list(first_of_id.values())
    keys = scraper_keys(entries)
    rows = await server.once(ENQUEUE, run_id, *entry_columns(entries), keys)
    added, known = map(int, rows[0])
    report = EnqueueReport(added=added, duplicate=len(entries) - added - known, known=known)
    if keys is None or len(entries) == len(batch):
        return report + EnqueueReport(duplicate=len(batch) - len(entries))
    # Repeated tasks are known or duplicates, as their first occurrence was: the server decides.
    firsts = {id(entry) for entry in entries}
    return report + await enqueue(server, run_id, [entry for entry in batch if id(entry) not in firsts])


def entry_columns(entries: Sequence[QueuedTask]) -> list[Any]:
    """Return the arguments of `shoal.put`: distinct names, and tasks that refer to them by position."""
    hosts: dict[str, int] = {}
    step_groups: dict[tuple[str, str], int] = {}
    bands: dict[int, int] = {}
    host_of: list[int] = []
    step_group_of: list[int] = []
    for entry in entries:
        host_of.append(hosts.setdefault(entry.host, len(hosts) + 1))
        step_group = step_groups.setdefault((entry.step, entry.partition), len(step_groups) + 1)
        step_group_of.append(step_group)
        bands[step_group] = bands.get(step_group, 0) | 1 << entry.priority
    return [
        list(hosts),
        [step for step, _ in step_groups],
        [partition for _, partition in step_groups],
        list(bands.values()),
        [entry.id for entry in entries],
        host_of,
        step_group_of,
        [entry.priority for entry in entries],
        [entry.depth for entry in entries],
        unless_all_none([entry.ttl for entry in entries]),
        unless_all_none([entry.delay or None for entry in entries]),
        joined_texts([entry.url for entry in entries]),
        joined_texts([entry.key for entry in entries]),
        joined_texts([None if entry.payload == "{}" else entry.payload for entry in entries]),
    ]


def scraper_keys(entries: Sequence[QueuedTask]) -> Sequence[bytes | None] | None:
    """Return the keys that all runs of a scraper share; None if no task has one."""
    return unless_all_none([entry.scraper_key for entry in entries])


async def forget(server: PostgresServer, scraper: str) -> int:
    """Forget the keys that runs of a scraper have queued, and return their number."""
    count = 0
    after: bytes | None = b""
    while after is not None:
        known, after = (await server.fetch(QUERIES["forget"], scraper, after, FORGET_BATCH))[0]
        count += known
    return count
