"""Leases that are renewed (`extend`), abandoned or lost."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from shoal.core.model import Fate, Lease
from shoal.queue.contract import WorkQueue
from shoal.queue.encoding import micros
from shoal.queue.redis.records import pack
from shoal.queue.redis.server import RedisServer
from shoal.queue.redis.shards import shard_of_lease

FIRST_PAGE = b"0"


class RedisLeases(WorkQueue):
    """The leases of a queue after their claim."""

    _server: RedisServer
    _shards: int

    async def _extend(self, leases: Sequence[Lease], lease: timedelta) -> list[Fate]:
        fates = [Fate.STALE] * len(leases)
        groups: dict[tuple[str, int], list[int]] = {}
        for position, one in enumerate(leases):
            groups.setdefault((one.run_id, shard_of_lease(one, self._shards)), []).append(position)
        for (run_id, shard), positions in groups.items():
            ids = b"".join(bytes.fromhex(leases[position].task_id) for position in positions)
            tokens = pack([leases[position].token for position in positions])
            for number in await self._server.call("extend", shard, run_id, ids, tokens, micros(lease)):
                fates[positions[number - 1]] = Fate.ACCEPTED
        return fates

    async def _extend_worker(self, worker_id: str, lease: timedelta) -> int:
        async def extend_on(shard: int) -> int:
            tokens: set[int] = set()  # a page may repeat a lease of an earlier one
            for number in await _runs_with_leases(self._server, shard):
                cursor = FIRST_PAGE
                while True:
                    extended, cursor = await self._server.call(
                        "extend_worker", shard, worker_id, number, cursor, micros(lease)
                    )
                    tokens.update(extended)
                    if cursor == FIRST_PAGE:
                        break
            return len(tokens)

        return sum(await asyncio.gather(*map(extend_on, range(self._shards))))

    async def _abandon(self, worker_id: str, once: Sequence[str], reason: str) -> int:
        async def abandon_on(shard: int) -> int:
            count = 0
            for number in await _runs_with_leases(self._server, shard):
                cursor = FIRST_PAGE
                while True:
                    ended, cursor = await self._server.once(
                        "abandon", shard, worker_id, number, cursor, reason, *once
                    )
                    count += int(ended)
                    if cursor == FIRST_PAGE:
                        break
            return count

        return sum(await asyncio.gather(*map(abandon_on, range(self._shards))))


async def _runs_with_leases(server: RedisServer, shard: int) -> list[bytes]:
    """Return the numbers of the runs that have a lease in a shard: every one of them has a next deadline."""
    numbers: list[bytes] = await server.command("ZRANGE", server.key(shard, "next_lost"), 0, -1)
    return numbers


async def reclaim(server: RedisServer, shard: int) -> tuple[int, int]:
    """End the lost leases of a shard; return their number, and whether calls on runs were interrupted."""
    count, more, left = 0, 1, 0
    while more:
        lost, more, left = await server.once("reclaim", shard)
        count += int(lost)
    return count, int(left)
