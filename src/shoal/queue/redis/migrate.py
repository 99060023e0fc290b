"""Checks that the store belongs to Shoal and has a schema version that this Shoal knows."""

import asyncio

from shoal.core.errors import QueueError
from shoal.queue.redis.errors import lost_shard
from shoal.queue.redis.server import RedisServer
from shoal.queue.schema import SchemaVersions, must_migrate

VERSION = 1001
HOME = 0
OLDEST_SERVER = (7, 0)


async def migrate(server: RedisServer, shards: int, *, is_state: bool = False) -> int:
    """Write the version into a new store, or check that of an existing one; many may do so at once.

    `is_state` is for the state of a queue on RabbitMQ. Raises SchemaTooNew, or QueueError for a store that
    cannot be used.
    """
    await _check_server(server)
    found, made_with, _ = map(int, await server.call("meta", HOME, "", ""))
    must_migrate(found, VERSION)
    if not is_state:
        await _refuse_state_store(server)
    if found and made_with != shards:
        raise QueueError(
            f"The queue at {server.address} was made with {made_with} shards, this address means {shards}. "
            + ("Add ?cluster=true to it" if made_with > 1 else "Remove ?cluster=true from it")
        )
    if not found:
        await _write_version(server, shards)
    return max(found, VERSION)


async def version(server: RedisServer) -> SchemaVersions:
    """Open a connection, and read the version of its store."""
    await server.open()
    try:
        return SchemaVersions((await server.call("meta", HOME, "", ""))[0], VERSION)
    finally:
        await server.close()


async def _write_version(server: RedisServer, shards: int) -> None:
    """Write the version into every shard, into the first one last: it shows that all have it.

    A shard without it has lost its data, and is not initialised again: see `adopt.lua`.
    """
    others = (server.call("meta", shard, VERSION, shards) for shard in range(1, shards))
    known = sum(int(runs) for _, _, runs in await asyncio.gather(*others))
    if known:
        raise lost_shard(server.address, server.tag(HOME))
    await server.call("meta", HOME, VERSION, shards)


async def _refuse_state_store(server: RedisServer) -> None:
    """Raise QueueError if the store is the state of a queue on RabbitMQ, whose waiting tasks are not here."""
    if await server.command("HEXISTS", server.key(HOME, "meta"), "store"):
        raise QueueError(
            f"The store at {server.address} is the state of a queue on RabbitMQ. "
            "Name both: amqp://user:password@host/?state=redis://…"
        )


async def _check_server(server: RedisServer) -> None:
    info = await server.info(0, "server")
    version = tuple(int(part) for part in str(info["redis_version"]).split(".")[:2])
    if version < OLDEST_SERVER:
        raise QueueError(
            f"The queue at {server.address} runs Redis {info['redis_version']}; "
            "Shoal needs 7.0 or newer, or Valkey"
        )
    if not server.is_cluster and info.get("redis_mode") == "cluster":
        raise QueueError(f"The queue at {server.address} is a cluster. Add ?cluster=true to its address")
