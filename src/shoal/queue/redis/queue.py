"""The queue on Redis: each verb of the contract is one script call on each shard that it concerns."""

from collections.abc import Callable
from datetime import timedelta
from typing import Self

from shoal.core.model import ZERO
from shoal.queue.contract import Queue
from shoal.queue.redis.migrate import SHARDS_OF_A_CLUSTER, migrate
from shoal.queue.redis.server import RedisServer
from shoal.queue.redis.verbs.admin import RedisAdmin
from shoal.queue.redis.verbs.notes import RedisSharedNotes
from shoal.queue.redis.verbs.reports import RedisReports
from shoal.queue.redis.verbs.work import RedisWork
from shoal.queue.retry import RETRY_TIMEOUT


def no_skew() -> timedelta:
    """Return the offset to add to the server's clock; only tests pass another function."""
    return ZERO


class RedisQueue(RedisWork, RedisReports, RedisAdmin, RedisSharedNotes, Queue):
    """A queue in a Redis server or cluster, for any number of workers on any number of machines."""

    @classmethod
    async def open(
        cls, url: str, *, patience: timedelta = RETRY_TIMEOUT, skew: Callable[[], timedelta] = no_skew
    ) -> Self:
        """Connect and check the store; raises QueueUnavailable when `patience` is over."""
        server = RedisServer(url, patience=patience, skew=skew)
        shards = SHARDS_OF_A_CLUSTER if server.is_cluster else 1
        await server.open()
        try:
            await migrate(server, shards)
        except BaseException:
            await server.close()
            raise
        return cls(server, shards)

    async def close(self) -> None:
        await self._server.close()

    async def migrate(self) -> int:
        return await migrate(self._server, self._shards)
