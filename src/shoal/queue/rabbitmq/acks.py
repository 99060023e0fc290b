"""Late acknowledgements: a message stays in the broker for longer than Redis may lose its landing.

A Redis that fails over to a replica, or whose machine loses its power, forgets the last moments. A bundle
that came ashore in them is expected from the broker again, and the broker must still have it. So a message is
acknowledged only some time after its landing, and only if Redis still knows of the landing; else it goes back
to its queue.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from shoal.core.errors import QueueError
from shoal.core.tasks import restarted, watched
from shoal.queue.rabbitmq.broker import Broker, Delivery
from shoal.queue.rabbitmq.memory import ONLY, Memory
from shoal.queue.redis.server import Argument

HOLD = 30.0  # seconds; RabbitMQ closes a channel that has not acknowledged a message for 30 minutes
CHECK_EVERY = 1.0
MOST_HELD = 5_000  # messages; beyond that the oldest are acknowledged early
AT_ONCE = 500

log = logging.getLogger(__name__)


class _Held(NamedTuple):
    landed: float
    number: int
    name: str
    delivery: Delivery


class LateAcks:
    """Messages whose bundles have landed and that the broker still has."""

    def __init__(self, broker: Broker, memory: Memory) -> None:
        self._broker, self._memory = broker, memory
        self._held: deque[_Held] = deque()
        self._checking: asyncio.Task[None] | None = None

    def add(self, number: int, name: str, delivery: Delivery) -> None:
        """Acknowledge a message later; its bundle of this name landed just now in the run of this number."""
        without_body = replace(delivery, body=b"")
        self._held.append(_Held(asyncio.get_running_loop().time(), number, name, without_body))
        if self._checking is None:
            duty = restarted("Acknowledging messages", self._check_until_empty, log.error)
            self._checking = watched(asyncio.create_task(duty))

    async def close(self) -> None:
        """Stop; what is not acknowledged goes back to its queue, where others see that it has landed."""
        checking, self._checking = self._checking, None
        if checking:
            checking.cancel()
            await asyncio.wait([checking])
        self._held.clear()

    async def check(self) -> None:
        """Acknowledge what landed long ago and is still known to have landed."""
        while ripe := self._ripe():
            lost = await self._lost(ripe)
            for place, one in enumerate(ripe):
                self._held.popleft()
                if place in lost:
                    await self._broker.put_back(one.delivery)
                else:
                    await self._broker.acknowledge(one.delivery)
            if lost:
                log.warning("Redis forgot that %d bundles had landed; they are fetched again", len(lost))

    async def _check_until_empty(self) -> None:
        while self._held:
            await asyncio.sleep(CHECK_EVERY)
            with suppress(QueueError):  # then they are held for longer
                await self.check()
        self._checking = None

    def _ripe(self) -> list[_Held]:
        old = asyncio.get_running_loop().time() - HOLD
        spare = len(self._held) - MOST_HELD
        return [
            one
            for place, one in zip(range(AT_ONCE), self._held, strict=False)
            if one.landed <= old or place < spare
        ]

    async def _lost(self, ripe: Sequence[_Held]) -> set[int]:
        args: list[Argument] = [word for one in ripe for word in (one.number, one.name)]
        return {int(place) for place in await self._memory.call("landed", ONLY, *args)}
