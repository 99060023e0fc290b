"""Where Redis keeps what: the shards of workers."""

from shoal.fleet.dead_workers import new_worker_id
from shoal.queue.redis.shards import shard_of_worker


def test_the_heartbeats_of_a_launchers_workers_are_in_one_shard_and_launchers_are_spread():
    assert len({shard_of_worker(new_worker_id(), 16) for _ in range(20)}) == 1
    launchers = {shard_of_worker(f"machine-{pid}-0a1b2c3d", 16) for pid in range(100)}
    assert len(launchers) == 16
    assert 0 <= shard_of_worker("worker1", 16) < 16
