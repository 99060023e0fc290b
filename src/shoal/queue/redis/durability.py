"""What a crash of a server can cost, read from its settings; and the memory that it uses."""

from collections.abc import Iterable
from enum import IntEnum

from shoal.core.model import Durability
from shoal.queue.contract import Evictions, StoreSize
from shoal.queue.redis.server import RedisServer


class DurabilityRisk(IntEnum):
    """What a crash can cost, the worst last."""

    NOTHING = 0
    LAST_SECOND = 1
    HALF_A_MINUTE = 2
    UNKNOWN = 3
    SNAPSHOT = 4
    EVERYTHING = 5
    EVICTION = 6


_SYNCED = {
    "always": "the server syncs its log before every reply, so a crash costs nothing",
    "everysec": "the server syncs its log every second, so a crash can cost the last second",
    "no": "the operating system syncs the log, so a crash of the machine can cost about half a minute",
}
_RISKS = {
    "always": DurabilityRisk.NOTHING,
    "everysec": DurabilityRisk.LAST_SECOND,
    "no": DurabilityRisk.HALF_A_MINUTE,
}


async def durability(server: RedisServer, shards: Iterable[int]) -> Durability:
    """Return what a crash of the servers of these shards can cost: the worst of them."""
    risk, text = max([await _risk(server, shard) for shard in shards])
    return Durability(risk is DurabilityRisk.NOTHING, _sentence(text))


async def store_size(server: RedisServer, shards: Iterable[int]) -> StoreSize:
    """Return the memory of the servers of these shards: Redis does not count it by key prefix."""
    nodes = [await server.info(shard, "memory") for shard in shards]
    used = sum(int(node["used_memory"]) for node in nodes)
    return StoreSize(used, "the memory of the Redis server, with all that other programs have in it")


async def evictions(server: RedisServer, shards: Iterable[int]) -> Evictions | None:
    """Return what the servers of these shards evict when they are full, and how much they have; or None."""
    texts, count = dict[str, None](), 0
    for shard in shards:
        if text := await _evicts(server, shard):
            texts[text] = None
            count += int((await server.info(shard, "stats"))["evicted_keys"])
    return Evictions(_sentence("; ".join(texts)), count) if texts else None


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


async def _evicts(server: RedisServer, shard: int) -> str:
    """Return what the server of a shard evicts when it is full; empty if nothing."""
    # Not CONFIG GET, which providers often do not allow.
    memory = await server.info(shard, "memory")
    policy = memory.get("maxmemory_policy", "noeviction")
    if policy == "noeviction" or not int(memory.get("maxmemory", 0)):
        return ""
    cost = (
        "and tasks and results with them"
        if policy.startswith("allkeys")
        else "among them those by which a repeated call takes effect once"
    )
    return (
        f"the server evicts keys when it is full ({policy}), {cost}; "
        "run: redis-cli CONFIG SET maxmemory-policy noeviction"
    )


async def _risk(server: RedisServer, shard: int) -> tuple[DurabilityRisk, str]:
    if text := await _evicts(server, shard):
        return DurabilityRisk.EVICTION, text
    appendonly = await server.setting(shard, "appendonly")
    if appendonly is None:
        return (
            DurabilityRisk.UNKNOWN,
            "the server does not allow CONFIG GET; ask its operator whether appendonly is on",
        )
    if appendonly == "yes":
        fsync = await server.setting(shard, "appendfsync") or "everysec"
        fsync = fsync if fsync in _SYNCED else "everysec"
        return _RISKS[fsync], _SYNCED[fsync]
    if save := await server.setting(shard, "save"):
        seconds = max(int(word) for word in save.split()[::2])
        return (
            DurabilityRisk.SNAPSHOT,
            f"the server saves snapshots (save {save}), so a crash can cost up to "
            f"{seconds:,} seconds; turn on appendonly to lose at most one",
        )
    return (
        DurabilityRisk.EVERYTHING,
        "the server saves nothing, so a crash costs the whole queue; turn on appendonly",
    )
