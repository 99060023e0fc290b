"""Leases that are renewed (`extend`), abandoned or lost."""

import logging
from collections.abc import Sequence
from datetime import timedelta

from shoal.core.model import Fate, Lease
from shoal.queue.contract import WorkQueue
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


class PostgresLeases(WorkQueue):
    """The leases of a queue after their claim."""

    _server: PostgresServer

    async def _extend(self, leases: Sequence[Lease], lease: timedelta) -> list[Fate]:
        fates = [Fate.STALE] * len(leases)
        ids = [bytes.fromhex(held.task_id) for held in leases]
        tokens = [held.token for held in leases]
        for accepted in await self._server.value(EXTEND, ids, tokens, lease):
            fates[accepted - 1] = Fate.ACCEPTED
        return fates

    async def _extend_worker(self, worker_id: str, lease: timedelta) -> int:
        return int(await self._server.value(QUERIES["extend_worker"], worker_id, lease))

    async def reclaim(self) -> int:
        count = 0
        if set_back := await self._server.value(FOLLOW_CLOCK):
            log.warning(
                "The clock of the PostgreSQL server was set back by %s. Stored times follow it.",
                set_back,
            )
        while lost := (await self._server.once(RECLAIM, BATCH))[0][0]:
            count += int(lost)
        while await self._server.value(TIDY, BATCH):
            pass
        await clear_purged(self._server)
        return count

    async def _abandon(self, worker_id: str, once: Sequence[str], reason: str) -> int:
        # Not those that it gets meanwhile: a worker that is not dead after all would never be done.
        newest = await self._server.value(QUERIES["newest_token"])
        count = 0
        while ended := (await self._server.once(ABANDON, worker_id, newest, BATCH, once, reason))[0][0]:
            count += int(ended)
        return count
