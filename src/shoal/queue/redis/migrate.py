"""Checks that the store belongs to Shoal and has a schema version that this Shoal knows."""

import asyncio

from shoal.core.errors import QueueError, SchemaTooNew
from shoal.queue.redis.errors import lost_shard
from shoal.queue.redis.server import RedisServer

NEWEST = 3
OLDEST_STATE = 3  # of a queue on RabbitMQ: version 3 renamed its keys, and those of a plain queue stayed
HOME = 0
OLDEST_SERVER = (7, 0)


async def migrate(server: RedisServer, shards: int, *, is_state: bool = False) -> int:
    """Write the version into a new store, or check and update that of an old one; many may do so at once.

    `is_state` is for the state of a queue on RabbitMQ. Raises SchemaTooNew, or QueueError for a store that
    cannot be used.
    """
    await _check_server(server)
    found, made_with, _ = await server.call("meta", HOME, "", "")
    if found > NEWEST:
        raise SchemaTooNew(found, NEWEST)
    if not is_state:
        await _refuse_state_store(server)
    elif 0 < found < OLDEST_STATE:
        raise _too_old(server, found)
    if found and made_with != shards:
        raise QueueError(
            f"The queue at {server.address} was made with {made_with} shards, this address means {shards}. "
            + ("Add ?cluster=true to it" if made_with > 1 else "Remove ?cluster=true from it")
        )
    if found < NEWEST:
        await _write_version(server, shards, is_new=found == 0)
    return NEWEST


def _too_old(server: RedisServer, found: int) -> QueueError:
    return QueueError(
        f"The store at {server.address} has schema version {found}; "
        f"this Shoal needs {OLDEST_STATE} or later and cannot migrate it. "
        "Finish its runs with the Shoal that made it, or start a new queue: "
        "add &namespace=NAME to the address, or name another Redis database"
    )


async def _write_version(server: RedisServer, shards: int, *, is_new: bool) -> None:
    """Write the version into every shard, into the first one last: it shows that all have it.

    A shard without it has lost its data, and is not initialised again: see `adopt.lua`.
    """
    others = (server.call("meta", shard, NEWEST, shards) for shard in range(1, shards))
    known = sum(int(runs) for _, _, runs in await asyncio.gather(*others))
    if is_new and known:
        raise lost_shard(server.address, server.tag(HOME))
    await server.call("meta", HOME, NEWEST, shards)


async def _refuse_state_store(server: RedisServer) -> None:
    """Raise QueueError if the store is the state of a queue on RabbitMQ, whose waiting tasks are not here."""
    # Version 2 called the field `river`.
    names = await server.command("HMGET", server.key(HOME, "meta"), "store", "river")
    if any(name is not None for name in names):
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
