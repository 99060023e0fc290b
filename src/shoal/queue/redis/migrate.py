"""Making sure that the store is Shoal's, and of a version that this Shoal knows."""

import asyncio

from shoal.core.errors import QueueError, SchemaTooNew
from shoal.queue.redis.server import Server
from shoal.queue.redis.translate import lost_shard

NEWEST = 2
HOME = 0
OLDEST_SERVER = (7, 0)
SHARDS_OF_A_CLUSTER = 16


async def migrate(server: Server, shards: int) -> int:
    """Note the version in a new store, or check that of an old one; many may do so at once."""
    await _check_server(server)
    found, made_with, _ = await server.call("meta", HOME, "", "")
    if found > NEWEST:
        raise SchemaTooNew(found, NEWEST)
    if found and made_with != shards:
        raise QueueError(
            f"The queue at {server.address} was made with {made_with} shards, this address means {shards}. "
            + ("Add ?cluster=true to it" if made_with > 1 else "Remove ?cluster=true from it")
        )
    if found < NEWEST:
        await _note_version(server, shards, is_new=found == 0)
    return NEWEST


async def _note_version(server: Server, shards: int, *, is_new: bool) -> None:
    """Note the version in every shard, in the first one last: it says that all have it.

    A shard without it has lost what it had, and is not made anew: see `adopt.lua`.
    """
    others = (server.call("meta", shard, NEWEST, shards) for shard in range(1, shards))
    known = sum(int(runs) for _, _, runs in await asyncio.gather(*others))
    if is_new and known:
        raise lost_shard(server.address, server.tag(HOME))
    await server.call("meta", HOME, NEWEST, shards)


async def refuse_half_a_queue(server: Server) -> None:
    """Raise if the store is the memory of a queue on RabbitMQ, whose waiting tasks are not here."""
    if await server.command("HGET", server.key(HOME, "meta"), "river") is not None:
        raise QueueError(
            f"The store at {server.address} is the memory of a queue on RabbitMQ. "
            "Name both: amqp://user:password@host/?state=redis://…"
        )


async def _check_server(server: Server) -> None:
    info = await server.info(0, "server")
    version = tuple(int(part) for part in str(info["redis_version"]).split(".")[:2])
    if version < OLDEST_SERVER:
        raise QueueError(
            f"The queue at {server.address} runs Redis {info['redis_version']}; "
            "Shoal needs 7.0 or newer, or Valkey"
        )
    if not server.is_cluster and info.get("redis_mode") == "cluster":
        raise QueueError(f"The queue at {server.address} is a cluster. Add ?cluster=true to its address")
