"""Late acknowledgements: the broker keeps a message for longer than Redis may lose the receipt of its bundle.

A Redis that fails over to a replica, or whose machine loses power, forgets the last moments. It expects a
bundle that was received in them again, and the broker must still have it. So a message is acknowledged only
some time after its bundle was received, and only if Redis still knows that; else it goes back to its queue.
A message carries a bundle of tasks; a task is settled by `queue/redis/lua/settle.lua`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from shoal.core.errors import QueueError
from shoal.core.model import SECOND
from shoal.core.tasks import restarted, watched
from shoal.queue.rabbitmq.broker import Broker, Delivery
from shoal.queue.rabbitmq.state import ONLY, StateStore
from shoal.queue.redis.server import Argument

ACK_DELAY = 30 * SECOND  # RabbitMQ closes a channel that has not acknowledged a message for 30 minutes
CHECK_INTERVAL = SECOND
MAX_HELD = 5_000  # messages; beyond that the oldest are acknowledged early
BATCH = 500  # messages of one call to Redis

log = logging.getLogger(__name__)


class _UnackedDelivery(NamedTuple):
    received: float
    number: int
    name: str
    delivery: Delivery


class LateAcks:
    """Messages whose bundles were received, and that the broker still has."""

    def __init__(self, broker: Broker, state: StateStore) -> None:
        self._broker, self._state = broker, state
        self._held: deque[_UnackedDelivery] = deque()
        self._checking: asyncio.Task[None] | None = None

    def add(self, number: int, name: str, delivery: Delivery) -> None:
        """Acknowledge a message later; its bundle of this name was just received in this run."""
        without_body = replace(delivery, body=b"")
        self._held.append(_UnackedDelivery(asyncio.get_running_loop().time(), number, name, without_body))
        if self._checking is None:
            duty = restarted("Acknowledging messages", self._check_until_empty, log.error)
            self._checking = watched(asyncio.create_task(duty))

    async def close(self) -> None:
        """Stop. Unacknowledged messages go back to their queues; workers recognise them as received."""
        checking, self._checking = self._checking, None
        if checking:
            checking.cancel()
            await asyncio.wait([checking])
        self._held.clear()

    async def check(self) -> None:
        """Acknowledge messages whose bundles were received long ago and are still known as received."""
        while ready := self._ready():
            lost = await self._find_lost(ready)
            for position, one in enumerate(ready):
                self._held.popleft()
                if position in lost:
                    await self._broker.requeue(one.delivery)
                else:
                    await self._broker.acknowledge(one.delivery)
            if lost:
                log.warning("Redis forgot that %d bundles were received; they are fetched again", len(lost))

    async def _check_until_empty(self) -> None:
        while self._held:
            await asyncio.sleep(CHECK_INTERVAL.total_seconds())
            with suppress(QueueError):  # then they are held for longer
                await self.check()
        self._checking = None

    def _ready(self) -> list[_UnackedDelivery]:
        old = asyncio.get_running_loop().time() - ACK_DELAY.total_seconds()
        excess = len(self._held) - MAX_HELD
        return [
            one
            for position, one in zip(range(BATCH), self._held, strict=False)
            if one.received <= old or position < excess
        ]

    async def _find_lost(self, ready: Sequence[_UnackedDelivery]) -> set[int]:
        args: list[Argument] = [word for one in ready for word in (one.number, one.name)]
        return {int(position) for position in await self._state.call("forget_received", ONLY, *args)}
