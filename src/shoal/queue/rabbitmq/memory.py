"""The Redis beside the broker. A call may hand out bundles, which reach the broker before it returns."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from shoal.core.errors import QueueError
from shoal.queue.rabbitmq.scripts import SCRIPTS
from shoal.queue.redis.scripts import Script
from shoal.queue.redis.server import Argument, Server

ONLY = 0  # the one shard of a plain server


class Cargo(NamedTuple):
    """A message that the broker is to be handed: its name in Redis, its way, its run."""

    name: bytes
    way: int
    number: int
    run_id: str
    body: bytes


class Told(NamedTuple):
    """A script's answer, and what else it said."""

    answer: Any
    extra: Sequence[Any]


Carry = Callable[[Sequence[Cargo], bool], Awaitable[None]]


class Memory(Server):
    """A Redis server whose scripts know of the river."""

    carry: Carry

    async def call(self, script: str, shard: int, *args: Argument) -> Any:
        """Run a script that is safe to repeat."""
        return (await self.told(script, *args)).answer

    async def once(self, script: str, shard: int, *args: Argument) -> Any:
        """Run a script that must take effect once."""
        return (await self.told_once(script, *args)).answer

    async def told(self, script: str, *args: Argument) -> Told:
        """Run a script that is safe to repeat, and hear all it says."""
        attempt = SCRIPTS[script]
        raw = await self._scripted(ONLY, lambda: self._run(attempt, ONLY, "", "", args))
        return await self._carried(script, raw)

    async def told_once(self, script: str, *args: Argument) -> Told:
        """Run a script that must take effect once, and hear all it says."""
        return await self._carried(script, await super().once(script, ONLY, *args))

    async def _run(
        self, script: Script, shard: int, call: str, acked: str, args: tuple[Argument, ...]
    ) -> Any:
        return await super()._run(SCRIPTS[script.name], shard, call, acked, args)

    async def _carried(self, script: str, raw: Sequence[Any]) -> Told:
        answer, cargo, extra = raw
        if cargo:
            await self._carry(script, [Cargo(n, w, r, i.decode(), b) for n, w, r, i, b in cargo])
        return Told(answer, extra)

    async def _carry(self, script: str, cargo: Sequence[Cargo]) -> None:
        if script in ("enqueue", "unsent"):
            await self.carry(cargo, script == "enqueue")
            return
        # Redis has obeyed, and its answer must be heard. It keeps the bundles until somebody can send them.
        with suppress(QueueError):
            await self.carry(cargo, False)
