"""A primary fails over behind a fixed address: the fleet continues with the data of the replica."""

import asyncio
from collections import Counter

import pytest

from shoal.core.errors import QueueReadOnly
from shoal.core.model import SECOND, ZERO, Done, Fate
from shoal.core.pacing import BURST_HORIZON
from shoal.queue.redis.queue import RedisQueue
from tests.conformance.helpers import claim, claim_all, page, pages, start
from tests.conftest import or_skip
from tests.servers.lossy_proxy import LossyProxy
from tests.servers.process import wait_until
from tests.servers.redis import RedisServer
from tests.servers.redis_talk import RedisTalk

DELAY = SECOND


class Pair:
    """A primary and its replica; `proxy` is the address that a fleet uses."""

    def __init__(self, primary, replica, proxy):
        self.primary, self.replica, self.proxy = primary, replica, proxy
        self.url = f"redis://127.0.0.1:{proxy.port}/0"

    def wait_for_replica(self):
        wait_until(lambda: _offset(self.primary) == _offset(self.replica), "the replica to catch up", 30)

    def promote(self):
        """Make the replica a primary: from now on it gets nothing from the old one."""
        self.replica.cli("REPLICAOF", "NO", "ONE")

    def demote(self):
        self.primary.cli("REPLICAOF", "127.0.0.1", self.replica.port)

    def lead_to_replica(self):
        self.proxy.lead_to(self.replica.port)


def _offset(server):
    lines = dict(line.split(":") for line in server.cli("INFO", "replication").split() if ":" in line)
    is_linked = lines["role"] == "master" or lines["master_link_status"] == "up"
    return (
        lines["master_repl_offset" if lines["role"] == "master" else "slave_repl_offset"] if is_linked else -1
    )


@pytest.fixture
async def pair():
    with (
        or_skip(lambda: RedisServer(settings={"repl-diskless-sync-delay": "0"})) as primary,
        RedisServer(settings={"replicaof": f"127.0.0.1 {primary.port}"}) as replica,
    ):
        async with LossyProxy(primary.port, RedisTalk) as proxy:
            yield Pair(primary, replica, proxy)


@pytest.fixture
async def queue(pair):
    async with await RedisQueue.open(pair.url) as queue:
        yield queue


async def test_a_primary_that_was_demoted_is_left_for_the_new_one(pair, queue):
    run = await start(queue, *pages(20))
    leases = await claim(queue, run, limit=5)
    await asyncio.to_thread(pair.wait_for_replica)
    pair.promote()
    pair.demote()  # it still replies on open connections
    settling = asyncio.create_task(queue.settle([Done(lease) for lease in leases]))
    done, _ = await asyncio.wait([settling], timeout=0.2)
    assert not done
    pair.lead_to_replica()
    assert await settling == [Fate.ACCEPTED] * 5
    assert len(await claim_all(queue, run)) == 15
    assert (await queue.stats(run.id)).completed == 5


async def test_an_address_that_leads_to_a_replica_for_good_says_so(pair):
    async with await RedisQueue.open(pair.url, patience=SECOND / 4) as queue:
        run = await start(queue, *pages(2))
        await asyncio.to_thread(pair.wait_for_replica)
        pair.lead_to_replica()
        await pair.proxy.cut()
        with pytest.raises(QueueReadOnly, match="replica"):
            await claim(queue, run)


async def test_a_failover_to_a_replica_that_missed_the_last_writes_costs_those_and_nothing_else(pair, queue):
    seeds = [page(n, f"h{n}.example") for n in range(20)]
    run = await start(queue, *seeds, host_delay=DELAY)
    early = await claim(queue, run, limit=3)
    assert await queue.settle([Done(early[0], items=["early"])]) == [Fate.ACCEPTED]
    await asyncio.to_thread(pair.wait_for_replica)
    pair.promote()  # so it misses the writes that follow
    late = await claim(queue, run, limit=5)
    assert await queue.settle([Done(one, items=[one.task.url]) for one in late[:3]]) == [Fate.ACCEPTED] * 3
    await queue.settle([Done(early[1], follow=[page("follow-up", "f.example")])])
    await queue.enqueue(run.id, [page("new", "n.example")])
    await asyncio.to_thread(pair.primary.kill)
    pair.lead_to_replica()
    # Outcomes of leases from the lost moments are stale; those of earlier leases are not.
    assert await queue.settle([Done(one) for one in late[3:]]) == [Fate.STALE] * 2
    assert await queue.extend(early[1:]) == [Fate.ACCEPTED] * 2
    # Starts on hosts may be lost too: no request is sent before a burst and the longest delay have passed.
    grant = await queue.claim("worker-1", run_id=run.id)
    assert (list(grant.leases), grant.drained) == ([], False)
    assert ZERO < grant.next_due <= BURST_HORIZON + DELAY
    # Enqueueing again restores what was lost; a page done in those moments is done again, and stored once.
    report = await queue.enqueue(run.id, [*seeds, page("new", "n.example")])
    assert (report.added, report.duplicate) == (1, 20)
    await queue.settle([Done(early[1], follow=[page("follow-up", "f.example")]), Done(early[2])])
    tokens = {lease.token for lease in [*early, *late]}
    while not (grant := await queue.claim("worker-1", run_id=run.id)).drained:
        assert not tokens & {lease.token for lease in grant.leases}
        await queue.settle([Done(lease, items=[lease.task.url]) for lease in grant.leases])
        await asyncio.sleep(0.05)
    stats = await queue.stats(run.id)
    assert (stats.tasks, stats.completed) == (22, 22)
    stored = Counter([item.data async for item in queue.items(run.id)])
    assert set(stored.values()) == {1}
    assert {one.task.url for one in late} < set(stored)


async def test_after_a_failover_no_host_gets_a_request_before_the_starts_that_were_lost_are_over(pair, queue):
    delay = SECOND / 4
    run = await start(queue, *(page(n, "h.example") for n in range(9)), host_delay=delay, per_host=9)
    await asyncio.to_thread(pair.wait_for_replica)
    pair.promote()  # so it misses the claim that follows, and its starts
    lost = await queue.claim("worker-1", run_id=run.id)
    assert lost.leases[-1].start_in == 3 * delay
    await asyncio.to_thread(pair.primary.kill)
    pair.lead_to_replica()
    held = await queue.claim("worker-1", run_id=run.id)
    assert not held.leases
    last = lost.claimed_at + lost.leases[-1].start_in
    assert held.claimed_at + held.next_due >= last + delay
    assert held.next_due > BURST_HORIZON
