"""The Redis beside the broker. A script may return bundles; they are published before the call returns.

The Lua scripts of the Redis queue (`queue/redis/lua`) run here: each rate limit of a host, the check for a
duplicate, leases that are renewed, the reclaim of expired ones, and the replay of dead letters are theirs.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from shoal.core.errors import QueueError
from shoal.queue.redis import server as redis_server
from shoal.queue.redis.server import Argument, RedisServer, Script, make_script

ONLY = 0  # the one shard of a plain server


def _texts(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.glob("*.lua")}


def _load_scripts() -> dict[str, Script]:
    """Return the scripts of the Redis queue, extended by the bundles in the broker, and a few of their own.

    A script consists of the libraries of both folders in the order of their names, `frame/begin`, the frame
    before the verb, the verb as a function, the frame after it, and `frame/end`, which returns the bundles to
    publish.
    """
    redis, rabbitmq = Path(redis_server.__file__).with_name("lua"), Path(__file__).with_name("lua")
    libraries = _texts(redis / "lib") | _texts(rabbitmq / "lib")
    lib = [libraries[name] for name in sorted(libraries)]
    frame = _texts(rabbitmq / "frame")
    verbs = _texts(redis) | _texts(rabbitmq)
    return {name: _script(name, lib, verb, frame) for name, verb in _named(verbs)}


def _named(texts: dict[str, str]) -> list[tuple[str, str]]:
    return [(name.removesuffix(".lua"), text) for name, text in sorted(texts.items())]


def _script(name: str, lib: Sequence[str], verb: str, frame: dict[str, str]) -> Script:
    body = "\n".join(
        [
            frame["begin.lua"],
            frame.get(f"before_{name}.lua", ""),
            f"local function verb()\n{verb}\nend",
            "local reply = verb()",
            "if type(reply) == 'table' and reply.err then return reply end",
            frame.get(f"after_{name}.lua", "local extra = {}"),
            frame["end.lua"],
        ]
    )
    return make_script(name, lib, body)


SCRIPTS = _load_scripts()


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
        raw = await self._retry(lambda: self._run(attempt, ONLY, "", "", args))
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
