"""Leases that are extended, abandoned or lost; and workers' heartbeats."""

import logging
from collections.abc import Sequence
from datetime import timedelta

from shoal.core.model import Fate, Lease
from shoal.queue.postgres.runs import clear_purged
from shoal.queue.postgres.server import PostgresServer
from shoal.queue.postgres.sql import QUERIES, call

BATCH = 1_000  # rows of one call of a sweep

EXTEND = call("extend", "bytea[]", "bigint[]", "interval")
RECLAIM = call("reclaim", "uuid", "bool", "int")
ABANDON = call("abandon", "uuid", "bool", "text", "bigint", "int", "text[]", "text")
TIDY = call("tidy", "int")
FOLLOW_CLOCK = call("follow_clock")

log = logging.getLogger(__name__)


async def extend(server: PostgresServer, leases: Sequence[Lease], lease: timedelta) -> list[Fate]:
    """Extend the deadlines of live leases."""
    fates = [Fate.STALE] * len(leases)
    ids = [bytes.fromhex(held.task_id) for held in leases]
    tokens = [held.token for held in leases]
    for accepted in await server.value(EXTEND, ids, tokens, lease):
        fates[accepted - 1] = Fate.ACCEPTED
    return fates


async def reclaim(server: PostgresServer) -> int:
    """End lost leases, and do what else time requires; return the number of lost leases."""
    count = 0
    if set_back := await server.value(FOLLOW_CLOCK):
        log.warning(
            "The clock of the PostgreSQL server was set back by %s. Stored times follow it.", set_back
        )
    while lost := (await server.once(RECLAIM, BATCH))[0][0]:
        count += int(lost)
    while await server.value(TIDY, BATCH):
        pass
    await clear_purged(server)
    return count


async def abandon(server: PostgresServer, worker_id: str, once: Sequence[str], reason: str) -> int:
    """End every lease of a worker, and return their number."""
    # Not those that it gets meanwhile: a worker that is not dead after all would never be done.
    newest = await server.value(QUERIES["newest_token"])
    count = 0
    while ended := (await server.once(ABANDON, worker_id, newest, BATCH, once, reason))[0][0]:
        count += int(ended)
    return count
