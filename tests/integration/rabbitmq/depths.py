"""Reads the broker directly, past the queue."""

from dataclasses import dataclass
from typing import Any

from aiormq.abc import AbstractConnection
from aiormq.exceptions import ChannelNotFoundEntity

from shoal.core.model import Run
from shoal.queue.rabbitmq.names import RunQueues


@dataclass(frozen=True)
class Depths:
    """Reads the queues of a run, and publishes to them."""

    connection: AbstractConnection
    redis: Any

    async def names(self, run: Run) -> RunQueues:
        """Return the run's queues."""
        store = (await self.redis.hget("{shoal:0}:meta", "store")).decode()
        number = int(await self.redis.hget("{shoal:0}:runs", run.id))
        return RunQueues(store, run.id, number)

    async def of(self, run: Run, kind: str) -> int | None:
        """Return how many messages wait in a queue of a run, None if there is no such queue."""
        return await self.named((await self.names(run)).prefix + kind)

    async def named(self, name: str) -> int | None:
        """Return how many messages wait in a queue, None if there is no such queue."""
        channel = await self.connection.channel()
        try:
            return (await channel.queue_declare(name, passive=True)).message_count
        except ChannelNotFoundEntity:
            return None

    async def take(self, run: Run, kind: str) -> Any:
        """Fetch the first message of a queue."""
        channel = await self.connection.channel()
        return await channel.basic_get((await self.names(run)).prefix + kind, no_ack=True)

    async def put(self, run: Run, kind: str, body: bytes) -> None:
        """Publish a message to a queue."""
        channel = await self.connection.channel()
        await channel.basic_publish(body, routing_key=(await self.names(run)).prefix + kind)
