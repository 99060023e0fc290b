"""Which shard of a cluster holds what; a plain server has one.

A host lives in one shard with its tasks. A key is noted in the shard that the key alone decides, because the
same key may come with any URL.
"""

from collections.abc import Sequence
from zlib import crc32

from shoal.core.model import Lease
from shoal.queue.intake import NO_HOST
from shoal.queue.redis.records import PackedTask

SHARDS_OF_A_CLUSTER = 16


def shard_of_key(task: PackedTask, shards: int) -> int:
    """Return the shard of a task's key, which depends on its identity alone: see `Intake`."""
    return shard_of_id(task.element[2:18], shards)


def shard_of_id(task_id: bytes, shards: int) -> int:
    """Return the shard of the key of a task with this id."""
    return int.from_bytes(task_id[:4], "big") % shards


def shard_of_host(host: str, shards: int) -> int:
    """Return the shard of a host's tasks: that of the keys of its https pages, so that most need one call."""
    return crc32(f"https://{host}".encode()) % shards


def shard_of_worker(worker_id: str, shards: int) -> int:
    """Return the shard of a worker's heartbeats: one for those of a launcher, so that they need one call."""
    launcher, _, own_part = worker_id.rpartition("-")
    return crc32((launcher or own_part).encode()) % shards


def home_of(task: PackedTask, shards: int) -> int:
    """Return the shard of a task: that of its host, or of its key if it has no host."""
    if task.host == NO_HOST:
        return shard_of_key(task, shards)
    return shard_of_host(task.host, shards)


def homes_of(tasks: Sequence[PackedTask], shards: int) -> list[int]:
    """Return the shards of tasks, nothing if there is only one."""
    return [home_of(one, shards) for one in tasks] if shards > 1 else []


def shard_of_lease(lease: Lease, shards: int) -> int:
    """Return the shard of a lease's task."""
    if shards == 1:
        return 0
    if lease.task.url is None:
        return int(lease.task_id[:8], 16) % shards
    return shard_of_host(lease.task.url.split("/", 3)[2], shards)
