"""The Redis beside the broker. A script may return bundles; they are published before the call returns."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from shoal.core.errors import QueueError
from shoal.queue.rabbitmq.scripts import SCRIPTS
from shoal.queue.redis.scripts import Script
from shoal.queue.redis.server import Argument, RedisServer

ONLY = 0  # the one shard of a plain server


class OutgoingBundle(NamedTuple):
    """A message to publish: its name in Redis, its route, its run."""

    name: bytes
    route: int
    number: int
    run_id: str
    body: bytes


class ScriptReply(NamedTuple):
    """The result of a script, and what the frame around it adds."""

    result: Any
    extra: Sequence[Any]


Publish = Callable[[Sequence[OutgoingBundle], bool], Awaitable[None]]


class StateStore(RedisServer):
    """A Redis server whose scripts return bundles to publish."""

    publish: Publish

    async def call(self, script: str, shard: int, *args: Argument) -> Any:
        """Run a script that is safe to repeat."""
        attempt = SCRIPTS[script]
        raw = await self._run_script(ONLY, lambda: self._run(attempt, ONLY, "", "", args))
        return (await self._publish_bundles(script, raw)).result

    async def once(self, script: str, shard: int, *args: Argument) -> Any:
        """Run a script that must take effect once."""
        return (await self.reply_once(script, *args)).result

    async def reply_once(self, script: str, *args: Argument) -> ScriptReply:
        """Run a script that must take effect once, and return its whole reply."""
        return await self._publish_bundles(script, await super().once(script, ONLY, *args))

    async def _run(
        self, script: Script, shard: int, call: str, acked: str, args: tuple[Argument, ...]
    ) -> Any:
        return await super()._run(SCRIPTS[script.name], shard, call, acked, args)

    async def _publish_bundles(self, script: str, raw: Sequence[Any]) -> ScriptReply:
        result, rows, extra = raw
        if rows:
            bundles = [
                OutgoingBundle(name, route, number, run_id.decode(), body)
                for name, route, number, run_id, body in rows
            ]
            await self._publish(script, bundles)
        return ScriptReply(result, extra)

    async def _publish(self, script: str, bundles: Sequence[OutgoingBundle]) -> None:
        if script in ("enqueue", "resend"):
            await self.publish(bundles, script == "enqueue")
            return
        # The script has taken effect, and the caller needs its result. Redis keeps the bundles for a resend.
        with suppress(QueueError):
            await self.publish(bundles, False)
