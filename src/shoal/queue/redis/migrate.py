"""Making sure that the store is Shoal's, and of a version that this Shoal knows."""

from shoal.core.errors import QueueError, SchemaTooNew
from shoal.queue.redis.server import Server

NEWEST = 1
OLDEST_SERVER = (7, 0)
SHARDS_OF_A_CLUSTER = 16


async def migrate(server: Server, shards: int) -> int:
    """Note the version in a new store, or check that of an old one; many may do so at once."""
    await _check_server(server)
    found, made_with = await server.call("meta", 0, NEWEST, shards)
    if found > NEWEST:
        raise SchemaTooNew(found, NEWEST)
    if made_with != shards:
        raise QueueError(
            f"The queue at {server.address} was made with {made_with} shards, this address means {shards}. "
            + ("Add ?cluster=true to it" if made_with > 1 else "Remove ?cluster=true from it")
        )
    return NEWEST


async def refuse_half_a_queue(server: Server) -> None:
    """Raise if the store is the memory of a queue on RabbitMQ, whose waiting tasks are not here."""
    if await server.command("HGET", "{shoal:0}:meta", "river") is not None:
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
