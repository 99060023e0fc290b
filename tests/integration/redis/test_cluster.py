"""On a cluster a follow-up task may belong to another shard: it gets there once, whoever dies on the way."""

import asyncio

import pytest
from redis.asyncio.cluster import RedisCluster

from shoal.core.model import MINUTE, ZERO, Done, RunSettings, Task
from shoal.queue.redis.queue import RedisQueue
from tests.conformance.helpers import claim_all, claim_one, page, start
from tests.integration.crew import reports_of
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


@pytest.fixture
def cut_short(queue, monkeypatch):
    """A queue whose process ends before it has forwarded anything."""

    async def nothing(shard):
        return None

    monkeypatch.setattr(queue._outboxes, "forward", nothing)
    return queue


async def test_follow_up_tasks_wait_in_the_outbox_and_keep_the_run_from_being_drained(
    cut_short, redis_cluster_url
):
    run = await start(cut_short, page())
    await cut_short.settle([Done(await claim_one(cut_short, run), follow=elsewhere(40))])
    at_home = await claim_all(cut_short, run)
    await cut_short.settle([Done(lease) for lease in at_home])
    grant = await cut_short.claim("worker-1", run_id=run.id)
    assert (list(grant.leases), grant.drained) == ([], False)
    async with await RedisQueue.open(redis_cluster_url) as other:
        away = await claim_all(other, run)
        assert len(at_home) + len(away) == 40
        assert len(away) > 20
        assert (await other.stats(run.id)).tasks == 41


async def test_reclaim_forwards_what_was_left(cut_short, redis_cluster_url):
    run = await start(cut_short, page())
    await cut_short.settle([Done(await claim_one(cut_short, run), follow=elsewhere(40))])
    async with await RedisQueue.open(redis_cluster_url) as other:
        await other.reclaim()
        assert (await other.stats(run.id)).pending == 40


async def test_what_is_forwarded_twice_enters_once(cut_short, redis_cluster_url, direct):
    run = await start(cut_short, page())
    await cut_short.settle([Done(await claim_one(cut_short, run), follow=elsewhere(40))])
    others = [await RedisQueue.open(redis_cluster_url) for _ in range(3)]
    await asyncio.gather(*(other.reclaim() for other in others))
    assert (await others[0].stats(run.id)).tasks == 41
    assert sum([await direct.xlen(f"{{shoal:{shard}}}:outbox") for shard in range(16)]) == 0
    for other in others:
        await other.close()


async def test_the_time_to_live_of_a_forwarded_task_counts_from_the_settling(cut_short, redis_cluster_url):
    run = await start(cut_short, page(), ttl=MINUTE)
    await cut_short.settle([Done(await claim_one(cut_short, run), follow=elsewhere(20))])
    later = await RedisQueue.open(redis_cluster_url, skew=lambda: MINUTE)
    await later.reclaim()
    await later.reclaim()
    stats = await later.stats(run.id)
    assert (stats.pending, stats.expired) == (0, 20)
    await later.close()


async def test_outboxes_of_a_purged_run_are_emptied(cut_short, redis_cluster_url, direct):
    run = await start(cut_short, page())
    await cut_short.settle([Done(await claim_one(cut_short, run), follow=elsewhere(20))])
    await cut_short.purge(run.id)
    async with await RedisQueue.open(redis_cluster_url) as other:
        await other.reclaim()
    assert sum([await direct.xlen(f"{{shoal:{shard}}}:outbox") for shard in range(16)]) == 0


async def test_a_shard_that_was_not_told_of_a_run_asks(queue, direct):
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


async def test_of_two_outcomes_that_bring_the_same_key_from_two_shards_the_first_wins(queue):
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


@pytest.mark.alone
async def test_four_workers_drain_a_web_that_spreads_over_all_shards(queue, redis_cluster_url):
    run = await queue.start_run("books", settings=RunSettings(host_delay=ZERO, per_host=5))
    await queue.enqueue(run.id, [Task(url=page_url(n)) for n in range(100)])
    orders = [
        {"url": redis_cluster_url, "name": f"worker-{n}", "runs": [run.id], "pages": 1500} for n in range(4)
    ]
    reports = await reports_of("tests.integration.queues.claimer", orders)
    stats = await queue.stats(run.id)
    assert stats.remaining == 0
    assert sum(report["accepted"] for report in reports) == stats.completed == stats.tasks == stats.items
    assert stats.tasks == len(reachable(range(100), 1500))
