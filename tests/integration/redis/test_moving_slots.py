"""While a slot of a cluster is moved the queue stops, and neither loses nor duplicates a task."""

import asyncio

import pytest

from shoal.core.errors import QueueError, QueueUnavailable
from shoal.core.model import MINUTE, SECOND, Done
from shoal.queue.redis import server
from shoal.queue.redis.queue import RedisQueue
from shoal.queue.redis.shards import shard_of_host
from tests.conformance.helpers import claim, claim_all, page, pages, start
from tests.conftest import or_skip
from tests.servers.redis import RedisCluster

HOST = "a.example"


class Slot:
    """The slot of the host's shard, and the steps of `redis-cli --cluster reshard`."""

    def __init__(self, cluster):
        self.number = _slot_of(cluster, _tag_of(HOST))
        self.nodes = cluster.nodes
        owner = self.number * 3 // 16_384
        self.source, self.target = cluster.nodes[owner], cluster.nodes[(owner + 1) % 3]

    def begin(self):
        self.target.cli("CLUSTER", "SETSLOT", self.number, "IMPORTING", _id_of(self.source))
        self.source.cli("CLUSTER", "SETSLOT", self.number, "MIGRATING", _id_of(self.target))

    def move_keys(self, count=10_000):
        keys = self.source.cli("CLUSTER", "GETKEYSINSLOT", self.number, count).splitlines()
        place = ("127.0.0.1", self.target.port, "", 0, 5_000, "KEYS")
        assert self.source.cli("MIGRATE", *place, *keys) == "OK"
        return len(keys)

    def end(self):
        for node in (self.target, self.source, *self.nodes):
            node.cli("CLUSTER", "SETSLOT", self.number, "NODE", _id_of(self.target))
        self.source, self.target = self.target, self.source

    def give_up(self):
        for node in (self.source, self.target):
            node.cli("CLUSTER", "SETSLOT", self.number, "STABLE")


def _id_of(node):
    return node.cli("CLUSTER", "MYID")


@pytest.fixture(scope="module")
def cluster():
    """A cluster for this file alone, because the tests move its slots."""
    with or_skip(RedisCluster) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def slot(cluster):
    return Slot(cluster)


@pytest.fixture
async def queue(cluster, monkeypatch):
    # On a busy machine a reply may take longer than these few retries, and a timeout would be the reason.
    monkeypatch.setattr(server, "MIN_CALL_TIMEOUT", server.CALL_TIMEOUT)
    cluster.flush()
    async with await RedisQueue.open(cluster.url, patience=SECOND / 4) as queue:
        yield queue


async def test_a_slot_that_is_being_moved_takes_no_task_for_new_and_loses_none(queue, slot):
    run = await start(queue, *pages(20))
    leases = await claim(queue, run, limit=5)
    slot.begin()
    try:
        for call in (
            lambda: queue.enqueue(run.id, pages(20)),
            lambda: queue.enqueue(run.id, pages(30)),
            lambda: queue.settle([Done(lease) for lease in leases]),
            lambda: queue.extend(leases),
            lambda: claim(queue, run),
            lambda: queue.stats(run.id),
            queue.reclaim,
        ):
            with pytest.raises(QueueUnavailable, match=r"being moved.*Stop the fleet"):
                await call()
        assert slot.target.cli("CLUSTER", "COUNTKEYSINSLOT", slot.number) == "0"
    finally:
        slot.give_up()
    report = await queue.enqueue(run.id, pages(20))
    assert (report.added, report.duplicate) == (0, 20)
    await queue.settle([Done(lease) for lease in leases])
    stats = await queue.stats(run.id)
    assert (stats.tasks, stats.completed, stats.leased) == (20, 5, 0)


async def test_a_fleet_waits_for_a_slot_to_arrive_and_goes_on_with_all_its_tasks(cluster, slot):
    cluster.flush()
    async with await RedisQueue.open(cluster.url, patience=MINUTE) as queue:
        run = await start(queue, *pages(50))
        leases = await claim(queue, run, limit=10)
        await queue.enqueue(run.id, [page(n, "b.example") for n in range(50)])
        slot.begin()
        slot.move_keys(count=3)
        calls = [
            asyncio.create_task(queue.settle([Done(lease) for lease in leases])),
            asyncio.create_task(queue.enqueue(run.id, pages(60))),
        ]
        done, _ = await asyncio.wait(calls, timeout=0.3)
        assert not done
        slot.move_keys()
        slot.end()
        await asyncio.gather(*calls)
        for lease in await claim_all(queue, run):
            await queue.settle([Done(lease)])
        stats = await queue.stats(run.id)
        assert (stats.tasks, stats.completed) == (110, 110)
        assert (await queue.claim("worker-1", run_id=run.id)).drained


async def test_a_shard_that_came_back_empty_is_not_taken_for_a_new_one(queue, cluster):
    home = _slot_of(cluster, "{shoal:0}")
    lost = next(node for node in cluster.nodes if home not in _slots_of(node))
    slots = _slots_of(lost)
    names = (f"{number}.example" for number in range(1_000))
    host = next(name for name in names if _slot_of(cluster, _tag_of(name)) in slots)
    run = await start(queue, *pages(20, host))
    lost.cli("FLUSHALL")
    for call in (claim(queue, run), queue.enqueue(run.id, pages(20, host))):
        with pytest.raises(QueueError, match=r"lost all.*\{shoal:\d+\}.*FLUSHALL"):
            await call
    cluster.flush()


async def test_a_cluster_that_has_lost_its_list_of_runs_is_not_taken_for_a_new_one(queue, cluster):
    await start(queue, *pages(20))
    home = _slot_of(cluster, "{shoal:0}")
    (owner,) = [node for node in cluster.nodes if home in _slots_of(node)]
    owner.cli("FLUSHALL")
    with pytest.raises(QueueError, match=r"lost all.*\{shoal:0\}"):
        await RedisQueue.open(cluster.url, patience=SECOND / 4)
    cluster.flush()


def _tag_of(host):
    """Return the hash tag of the shard of a host."""
    return f"{{shoal:{shard_of_host(host, 16)}}}"


def _slot_of(cluster, tag):
    return int(cluster.nodes[0].cli("CLUSTER", "KEYSLOT", tag))


def _slots_of(node):
    """Return the slots that a node has."""
    (line,) = [line for line in node.cli("CLUSTER", "NODES").splitlines() if "myself" in line]
    found = set()
    for part in line.split()[8:]:
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found
