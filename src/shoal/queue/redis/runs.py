"""The list of runs. Shard 0 is authoritative; the others have copies, and are given one when they lack it."""

import asyncio
from collections.abc import Sequence
from typing import Any

from shoal.core.errors import UnknownRun
from shoal.core.model import Run, RunSettings, RunState
from shoal.queue.encoding import micros
from shoal.queue.redis.records import fields_of, run_from, settings_fields
from shoal.queue.redis.server import Argument, RedisServer
from shoal.queue.requests import STEERED_FROM

COPIED_FIELDS = (
    "number",
    "id",
    "scraper",
    "host_delay",
    "per_host",
    "max_attempts",
    "ttl",
    "state",
    "started",
    "dedup",
    "dedup_steps",
)
HOME = 0
WOKEN_AT_ONCE = 500  # hosts in one script, which blocks the server


class RunList:
    """Creates, finds, changes and deletes runs."""

    def __init__(self, server: RedisServer, shards: int) -> None:
        self._server, self._shards = server, shards

    async def once(self, script: str, shard: int, run_id: str, *args: Argument) -> Any:
        """Run a script that must take effect once; a shard that does not know the run is told of it."""
        return await self._with_known_run(self._server.once, script, shard, run_id, *args)

    async def call(self, script: str, shard: int, run_id: str, *args: Argument) -> Any:
        """Run a script that is safe to repeat; a shard that does not know the run is told of it."""
        return await self._with_known_run(self._server.call, script, shard, run_id, *args)

    async def _with_known_run(self, verb: Any, script: str, shard: int, run_id: str, *args: Argument) -> Any:
        try:
            return await verb(script, shard, run_id, *args)
        except UnknownRun:
            await self._copy_to(shard, await self.fields(run_id))  # raises it if shard 0 does not know it
        return await verb(script, shard, run_id, *args)

    async def start(self, scraper: str, settings: RunSettings, run_id: str) -> tuple[Run, bool]:
        """Create a run, or return the one with this id; and whether it is new."""
        words = run_id, *settings_fields(scraper, settings)
        is_new, reply = await self._server.once("start_run", HOME, *words)
        fields = fields_of(reply)
        await self._copy_to_shards(fields)
        return run_from(fields), bool(is_new)

    async def fields(self, run_id: str) -> dict[str, str]:
        """Return the stored fields of a run; raises UnknownRun."""
        try:
            return fields_of(await self._server.call("run", HOME, run_id))
        except UnknownRun:
            raise UnknownRun(run_id, await self._ids()) from None

    async def number(self, run_id: str) -> int:
        """Return the number of a run, which is part of the names of its keys; raises UnknownRun."""
        return int((await self.fields(run_id))["number"])

    async def every(self) -> list[Run]:
        """Return all runs, the newest first."""
        numbers = await self._server.command("HVALS", self._key("runs"))
        found = [await self._server.command("HGETALL", self._key(f"run:{int(number)}")) for number in numbers]
        runs = [_decode(reply) for reply in found if reply]
        runs.sort(key=lambda fields: (int(fields["started"]), int(fields["number"])), reverse=True)
        return [run_from(fields) for fields in runs]

    async def steer(self, run_id: str, state: RunState, reason: str) -> Run:
        """Change the state of a run if its current state allows it; raises UnknownRun."""
        allowed = STEERED_FROM[state]
        try:
            fields = fields_of(await self._server.call("steer", HOME, run_id, state, reason, *allowed))
        except UnknownRun:
            raise UnknownRun(run_id, await self._ids()) from None
        await self._copy_to_shards(fields)
        return run_from(fields)

    async def change(self, old: Run, new: RunSettings) -> Run:
        """Change the rate limits and the attempts of a run; raises UnknownRun."""
        words: list[Argument] = [
            *("host_delay", micros(new.host_delay)),
            *("per_host", new.per_host),
            *("max_attempts", new.max_attempts),
        ]
        fields = fields_of(await self._server.call("change_run", HOME, old.id, *words))
        await self._copy_to_shards(fields)
        gap = micros(old.settings.host_delay)
        await asyncio.gather(
            *(self._wake_hosts(shard, fields["number"], gap) for shard in range(self._shards))
        )
        return run_from(fields)

    async def _wake_hosts(self, shard: int, number: str, old_gap: int) -> None:
        start = 0
        while await self._server.call("wake_run", shard, number, old_gap, start, WOKEN_AT_ONCE):
            start += WOKEN_AT_ONCE

    async def purge(self, run_id: str) -> None:
        """Delete a run and everything in it; raises UnknownRun."""
        # By its number, so that a repeated call finds the same run, and not a newer one with the same id.
        number = await self.number(run_id)
        await self._server.call("forget", HOME, run_id, number)
        await self._clear(run_id, number)

    async def finish_interrupted(self) -> None:
        """Complete purges and changes whose caller was interrupted."""
        for number, _ in await self._pairs("spreading"):
            reply = await self._server.command("HGETALL", self._key(f"run:{number}"))
            if reply:
                await self._copy_to_shards(_decode(reply))
        for number, run_id in await self._pairs("purging"):
            await self._clear(run_id, number)

    async def _clear(self, run_id: str, number: int) -> None:
        # Shard 0 last: it records that the purge is under way.
        others = (self._clear_shard(shard, run_id, number) for shard in range(1, self._shards))
        await asyncio.gather(*others)
        await self._clear_shard(HOME, run_id, number)

    async def _clear_shard(self, shard: int, run_id: str, number: int) -> None:
        if shard != HOME:
            await self._server.call("forget", shard, run_id, number)
        while await self._server.call("purge", shard, number):
            pass

    async def _copy_to_shards(self, fields: dict[str, str]) -> None:
        if self._shards > 1:
            await asyncio.gather(*(self._copy_to(shard, fields) for shard in range(1, self._shards)))
            await self._server.command("HDEL", self._key("spreading"), fields["number"])

    async def _copy_to(self, shard: int, fields: dict[str, str]) -> None:
        if shard == HOME:
            return
        copied: list[Argument] = [word for name in COPIED_FIELDS for word in (name, fields.get(name, ""))]
        await self._server.call("adopt", shard, fields["id"], fields["number"], fields["version"], *copied)

    async def _pairs(self, name: str) -> list[tuple[int, str]]:
        found = _decode(await self._server.command("HGETALL", self._key(name)))
        return [(int(number), run_id) for number, run_id in found.items()]

    async def ids(self) -> dict[int, str]:
        """Return the ids of all runs by their numbers."""
        found = _decode(await self._server.command("HGETALL", self._key("runs")))
        return {int(number): run_id for run_id, number in found.items()}

    def _key(self, name: str) -> str:
        return self._server.key(HOME, name)

    async def _ids(self) -> list[str]:
        ids: Sequence[bytes] = await self._server.command("HKEYS", self._key("runs"))
        return [run_id.decode() for run_id in ids]


def _decode(reply: Any) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in reply.items()}
