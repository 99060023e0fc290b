"""On a cluster a follow-up task may belong to another shard: it arrives once, whichever client dies."""

import asyncio

import pytest
from redis.asyncio.cluster import RedisCluster

from shoal.core.errors import QueueFull, QueueUnavailable, UnknownRun
from shoal.core.model import MINUTE, ZERO, Done, RunSettings, Task
from shoal.queue.redis.queue import RedisQueue
from shoal.queue.redis.shards import shard_of_lease
from tests.conformance.helpers import claim_all, claim_one, page, start
from tests.integration.programs import reports_of
from tests.integration.queues.web import page_url, reachable


@pytest.fixture
async def queue(redis_cluster_url):
    async with await RedisQueue.open(redis_cluster_url) as queue:
        yield queue


@pytest.fixture
async def direct(redis_cluster_url):
    async with RedisCluster.from_url(redis_cluster_url.partition("?")[0]) as client:
        yield client


def elsewhere(count):
    """Return tasks of many hosts, and so of many shards."""
    return [page(n, f"h{n}.example") for n in range(count)]


async def entries(direct, stream="outbox", number=1):
    """Return how many entries the streams of a run have, in all shards."""
    return sum([await direct.xlen(f"{{shoal:{shard}}}:{number}:{stream}") for shard in range(16)])


@pytest.fixture
def interrupted(queue, monkeypatch):
    """A queue whose process dies before it has forwarded anything."""

    async def nothing(*_):
        return None

    monkeypatch.setattr(queue._enqueuer._outboxes, "forward", nothing)
    return queue


async def test_a_shard_that_goes_away_during_a_claim_does_not_take_the_tasks_of_others_with_it(
    queue, monkeypatch
):
    run = await start(queue, *elsewhere(40))
    claim, given = queue._run_claim, []

    async def claim_once(shard, leases, *args):
        if leases and given:
            raise QueueUnavailable("redis", "it is away")
        if leases:
            given.append(shard)
        return await claim(shard, leases, *args)

    monkeypatch.setattr(queue, "_run_claim", claim_once)
    leases = (await queue.claim("worker-1", run_id=run.id, limit=40)).leases
    assert 0 < len(leases) == (await queue.stats(run.id)).leased


async def test_tasks_are_released_if_nobody_knows_whether_the_claim_was_allowed(queue, monkeypatch):
    run = await start(queue, *elsewhere(10))
    await queue.write_notes("plan", {"key": b"1"})
    fence = ("plan", "key", (await queue.notes("plan"))["key"].stamp)
    is_valid, calls = queue.is_valid, []

    async def valid_once(fence):
        calls.append(fence)
        if len(calls) > 1:
            raise QueueUnavailable("redis", "it is away")
        return await is_valid(fence)

    monkeypatch.setattr(queue, "is_valid", valid_once)
    with pytest.raises(QueueUnavailable):
        await queue.claim("worker-1", run_id=run.id, fence=fence)
    assert (await queue.stats(run.id)).leased == 0


async def test_follow_up_tasks_wait_in_the_outbox_and_keep_the_run_from_being_drained(
    interrupted, redis_cluster_url
):
    run = await start(interrupted, page())
    await interrupted.settle([Done(await claim_one(interrupted, run), follow=elsewhere(40))])
    at_home = await claim_all(interrupted, run)
    await interrupted.settle([Done(lease) for lease in at_home])
    grant = await interrupted.claim("worker-1", run_id=run.id)
    assert (list(grant.leases), grant.drained) == ([], False)
    async with await RedisQueue.open(redis_cluster_url) as other:
        away = await claim_all(other, run)
        assert len(at_home) + len(away) == 40
        assert len(away) > 20
        assert (await other.stats(run.id)).tasks == 41


async def test_reclaim_forwards_what_was_left(interrupted, redis_cluster_url):
    run = await start(interrupted, page())
    await interrupted.settle([Done(await claim_one(interrupted, run), follow=elsewhere(40))])
    async with await RedisQueue.open(redis_cluster_url) as other:
        await other.reclaim()
        assert (await other.stats(run.id)).pending == 40


async def test_what_is_forwarded_twice_enters_once(interrupted, redis_cluster_url, direct):
    run = await start(interrupted, page())
    await interrupted.settle([Done(await claim_one(interrupted, run), follow=elsewhere(40))])
    others = [await RedisQueue.open(redis_cluster_url) for _ in range(3)]
    await asyncio.gather(*(other.reclaim() for other in others))
    assert (await others[0].stats(run.id)).tasks == 41
    assert await entries(direct) == 0
    for other in others:
        await other.close()


async def test_the_time_to_live_of_a_forwarded_task_counts_from_the_settling(interrupted, redis_cluster_url):
    run = await start(interrupted, page(), ttl=MINUTE)
    await interrupted.settle([Done(await claim_one(interrupted, run), follow=elsewhere(20))])
    later = await RedisQueue.open(redis_cluster_url, skew=lambda: MINUTE)
    await later.reclaim()
    await later.reclaim()
    stats = await later.stats(run.id)
    assert (stats.pending, stats.expired) == (0, 20)
    await later.close()


async def test_outboxes_of_a_purged_run_are_emptied(interrupted, redis_cluster_url, direct):
    run = await start(interrupted, page())
    await interrupted.settle([Done(await claim_one(interrupted, run), follow=elsewhere(20))])
    assert await entries(direct) > 0
    await interrupted.purge(run.id)
    async with await RedisQueue.open(redis_cluster_url) as other:
        await other.reclaim()
    assert await entries(direct) == 0


async def test_a_shard_that_does_not_know_a_run_gets_a_copy(queue, direct):
    run = await queue.start_run("books", settings=RunSettings(host_delay=ZERO))
    for shard in range(1, 16):
        await direct.delete(f"{{shoal:{shard}}}:runs", f"{{shoal:{shard}}}:run:1")
    assert (await queue.enqueue(run.id, elsewhere(40))).added == 40
    assert len(await claim_all(queue, run)) == 40


async def test_a_key_enters_once_whatever_host_it_is_given_with(queue):
    run = await queue.start_run("books", settings=RunSettings(host_delay=ZERO))
    tasks = [page(n, f"h{n}.example", key="same") for n in range(20)] + [Task(key="same")]
    reports = await asyncio.gather(*(queue.enqueue(run.id, [task]) for task in tasks))
    assert sum(report.added for report in reports) == 1
    assert sum(report.duplicate for report in reports) == 20
    lease = await claim_one(queue, run)
    follow = [page(1, "other.example", key="same"), Task(url="http://h1.example/plain")]
    await queue.settle([Done(lease, follow=follow * 2)])
    assert [one.task.url for one in await claim_all(queue, run)] == ["http://h1.example/plain"]
    assert (await queue.stats(run.id)).tasks == 2


async def test_of_two_outcomes_with_the_same_key_on_two_shards_the_first_wins(queue):
    run = await start(queue, *elsewhere(10))
    leases = await claim_all(queue, run)
    await queue.settle(
        [Done(lease, follow=[Task(key="same", payload={"n": n})]) for n, lease in enumerate(leases)]
    )
    (lease,) = await claim_all(queue, run)
    assert lease.task.payload == {"n": 0}


async def test_items_of_all_shards_come_in_the_order_of_their_ids(queue):
    run = await start(queue, *elsewhere(60))
    leases = await claim_all(queue, run)
    await queue.settle([Done(lease, items=[[n, k] for k in range(5)]) for n, lease in enumerate(leases)])
    items = [item async for item in queue.items(run.id)]
    assert [item.id for item in items] == sorted({item.id for item in items})
    behind = [item async for item in queue.items(run.id, after=items[99].id)]
    assert behind == items[100:]


def by_http(count, **fields):
    """Return http pages: the shard of their key is not that of their host."""
    return [Task(url=f"http://h{n}.example/{n}", **fields) for n in range(count)]


async def test_settlements_that_send_to_each_others_shards_at_once_end(queue, redis_cluster_url):
    run = await start(queue, *by_http(30))
    leases = await claim_all(queue, run)
    links = by_http(60)[30:]
    outcomes = [Done(one, follow=[links[n], links[(n + 7) % 30]]) for n, one in enumerate(leases)]
    async with asyncio.timeout(20), await RedisQueue.open(redis_cluster_url) as other:
        await asyncio.gather(
            *(queue.settle([one]) for one in outcomes[::2]), *(other.settle([one]) for one in outcomes[1::2])
        )
        again = await claim_all(queue, run)
    assert sorted(one.task.url for one in again) == sorted(link.url for link in links)
    assert (await queue.stats(run.id)).tasks == 60


async def test_a_host_is_listed_once_whatever_shards_its_keys_are_in(queue):
    run = await start(queue, *by_http(10), *(page(n, f"h{n}.example", key=f"key-{n}") for n in range(10)))
    lease = await claim_one(queue, run)
    await queue.settle([Done(lease, follow=[page("x", "h3.example"), Task(url="http://h4.example/x")])])
    names = [status.host async for status in queue.hosts()]
    assert sorted(names) == [f"h{n}.example" for n in range(10)]


async def test_tasks_with_keys_reach_their_hosts_when_many_settle_at_once(queue):
    run = await start(queue, *elsewhere(20))
    leases = await claim_all(queue, run)
    follow = [page(n, f"h{n}.example", key=f"key-{n}") for n in range(40)]
    async with asyncio.timeout(20):
        await asyncio.gather(
            *(queue.settle([Done(one, follow=[follow[n], follow[39 - n]])]) for n, one in enumerate(leases))
        )
    assert sorted(one.task.key for one in await claim_all(queue, run)) == sorted(one.key for one in follow)


async def test_a_shard_that_accepts_nothing_delays_no_other(queue, monkeypatch):
    run = await start(queue, page())
    deliver, refusing = queue._enqueuer._outboxes._deliver, []

    async def deliver_unless_full(target, *args):
        if not refusing:
            refusing.append(target)
        if target in refusing:
            raise QueueFull("there", "no room")
        return await deliver(target, *args)

    monkeypatch.setattr(queue._enqueuer._outboxes, "_deliver", deliver_unless_full)
    await queue.settle([Done(await claim_one(queue, run), follow=elsewhere(60))])
    arrived = (await queue.stats(run.id)).pending
    assert arrived > 40
    assert not (await queue.claim("worker-1", run_id=run.id, limit=1)).drained
    refusing[0] = -1
    queue._enqueuer._outboxes._unavailable_until.clear()
    await queue.reclaim()
    assert (await queue.stats(run.id)).tasks == 61


async def test_what_another_run_has_in_its_outbox_keeps_no_run_from_being_drained(interrupted):
    busy, idle = await start(interrupted, page()), await start(interrupted, page())
    await interrupted.settle([Done(await claim_one(interrupted, busy), follow=elsewhere(40))])
    await interrupted.settle([Done(await claim_one(interrupted, idle))])
    assert (await interrupted.claim("worker-1", run_id=idle.id)).drained
    await interrupted.settle([Done(lease) for lease in await claim_all(interrupted, busy)])
    assert not (await interrupted.claim("worker-1", run_id=busy.id)).drained


async def dump(direct, shard):
    """Return all data of a shard."""
    keys = [key async for key in direct.scan_iter(f"{{shoal:{shard}}}*")]
    return {key: await direct.dump(key) for key in keys}


async def roll_back(direct, shard, before):
    """Restore an earlier state of a shard, like a failover to a replica that missed the last writes."""
    for key in (await dump(direct, shard)).keys() - before.keys():
        await direct.delete(key)
    for key, value in before.items():
        await direct.restore(key, 0, value, replace=True)


@pytest.mark.parametrize("link", [by_http(8)[7], page(1, key="mine")])
async def test_a_task_that_its_new_shard_lost_in_a_failover_is_delivered_again(
    queue, direct, redis_cluster_url, link
):
    run = await start(queue, page("seed", "seed.example"))
    lease = await claim_one(queue, run)
    home = shard_of_lease(lease, 16)
    others = [shard for shard in range(16) if shard != home]
    before = {shard: await dump(direct, shard) for shard in others}
    await queue.settle([Done(lease, follow=[link])])
    assert (await queue.stats(run.id)).pending == 1
    for shard in others:
        await roll_back(direct, shard, before[shard])
    assert (await queue.stats(run.id)).pending == 0
    async with await RedisQueue.open(redis_cluster_url, skew=lambda: MINUTE) as later:
        assert [one.task.url for one in await claim_all(later, run)] == [link.url]
        assert (await later.stats(run.id)).tasks == 2
        await later.reclaim()
        assert await entries(direct, "delivered") == await entries(direct) == 0


async def test_what_was_delivered_is_delivered_once_more_and_then_forgotten(queue, direct, redis_cluster_url):
    run = await start(queue, page())
    await queue.settle([Done(await claim_one(queue, run), follow=elsewhere(40))])
    kept = await entries(direct, "delivered")
    assert kept > 0
    await queue.reclaim()
    assert await entries(direct, "delivered") == kept, "too early"
    async with await RedisQueue.open(redis_cluster_url, skew=lambda: MINUTE) as later:
        await later.reclaim()
        assert await entries(direct, "delivered") == 0
        assert (await later.stats(run.id)).tasks == 41


async def test_the_workers_of_all_runs_are_listed_while_one_of_them_is_purged(queue, monkeypatch):
    gone, kept = await start(queue), await start(queue)
    runs = await queue.runs()
    await queue.beat("worker-1", run_id=kept.id)
    await queue.purge(gone.id)

    async def as_before():
        return runs

    monkeypatch.setattr(queue, "runs", as_before)
    assert [worker.worker_id for worker in await queue.workers()] == ["worker-1"]
    with pytest.raises(UnknownRun):
        await queue.workers(gone.id)


async def test_durability_is_that_of_the_least_durable_node(queue, redis_cluster):
    try:
        for number, node in enumerate(redis_cluster.nodes):
            node.cli("CONFIG", "SET", "save", "" if number == 1 else "900 1")
        found = await queue.durability()
        assert not found.safe and "whole queue" in found.text
    finally:
        for node in redis_cluster.nodes:
            node.cli("CONFIG", "SET", "save", "")


@pytest.mark.long
async def test_four_workers_drain_a_web_that_spreads_over_all_shards(queue, redis_cluster_url):
    run = await queue.start_run("books", settings=RunSettings(host_delay=ZERO, per_host=5))
    await queue.enqueue(run.id, [Task(url=page_url(n)) for n in range(100)])
    orders = [
        {"url": redis_cluster_url, "name": f"worker-{n}", "runs": [run.id], "pages": 800} for n in range(4)
    ]
    reports = await reports_of("tests.integration.queues.claimer", orders)
    stats = await queue.stats(run.id)
    assert stats.remaining == 0
    assert sum(report["accepted"] for report in reports) == stats.completed == stats.tasks == stats.items
    assert stats.tasks == len(reachable(range(100), 800))
