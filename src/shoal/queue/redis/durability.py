"""What a crash of a server can cost, from its own settings."""

from collections.abc import Iterable
from enum import IntEnum

from shoal.queue.redis.server import Server


class Risk(IntEnum):
    """How bad a crash is, the worst last."""

    NOTHING = 0
    LAST_SECOND = 1
    HALF_A_MINUTE = 2
    UNKNOWN = 3
    SNAPSHOT = 4
    EVERYTHING = 5
    EVICTION = 6


_SYNCED = {
    "always": "the server writes every answer to its disk first, so a crash costs nothing",
    "everysec": "the server syncs its log every second, so a crash can cost the last second",
    "no": "the server leaves its log to the system, so a crash of the machine can cost about half a minute",
}
_RISKS = {"always": Risk.NOTHING, "everysec": Risk.LAST_SECOND, "no": Risk.HALF_A_MINUTE}


async def durability(server: Server, shards: Iterable[int]) -> str:
    """Say in one sentence what a crash of the servers of these shards can cost, the worst of them."""
    _, said = max([await _risk(server, shard) for shard in shards])
    return f"{said[0].upper()}{said[1:]}."


async def _risk(server: Server, shard: int) -> tuple[Risk, str]:
    policy = await server.setting(shard, "maxmemory-policy")
    if policy not in (None, "noeviction") and await server.setting(shard, "maxmemory") not in (None, "0"):
        return (
            Risk.EVICTION,
            f"the server throws keys away when it is full ({policy}), and tasks with them; set noeviction",
        )
    appendonly = await server.setting(shard, "appendonly")
    if appendonly is None:
        return (
            Risk.UNKNOWN,
            "the server does not say how it saves; ask its operator whether appendonly is on",
        )
    if appendonly == "yes":
        fsync = await server.setting(shard, "appendfsync") or "everysec"
        fsync = fsync if fsync in _SYNCED else "everysec"
        return _RISKS[fsync], _SYNCED[fsync]
    if save := await server.setting(shard, "save"):
        seconds = max(int(word) for word in save.split()[::2])
        return (
            Risk.SNAPSHOT,
            f"the server saves a snapshot now and then (save {save}), so a crash can cost up to "
            f"{seconds:,} seconds; turn on appendonly to lose one at most",
        )
    return Risk.EVERYTHING, "the server saves nothing, so a crash costs the whole queue; turn on appendonly"
