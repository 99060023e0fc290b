"""Tasks wait in the broker, are received when they are needed, and survive the death of any client."""

import asyncio
import json

import pytest

from shoal.core.errors import QueueUnavailable
from shoal.core.model import SECOND, ZERO, Bury, Done, Retry, RunSettings
from shoal.queue.rabbitmq.queue import RabbitQueue
from tests.conformance.helpers import HOUR, claim, claim_all, claim_one, page, pages, paths, start
from tests.integration.redis.test_claim_cost import commands_of
from tests.servers.process import free_port

TOLERANCE = 10  # commands
LATER = 6 * SECOND  # when an unconfirmed bundle is sent again


@pytest.fixture
async def later(rabbitmq_url):
    """The same queue, some seconds later."""
    async with await RabbitQueue.open(rabbitmq_url, skew=lambda: LATER) as queue:
        yield queue


@pytest.fixture
def dying(queue, monkeypatch):
    """A queue whose process dies between its write to Redis and its publish to the broker."""

    async def nothing(bundles, wait):
        raise QueueUnavailable("nowhere", "this process has ended")

    monkeypatch.setattr(queue._server, "publish", nothing)
    return queue


async def size_of_keys(direct):
    """Return the bytes that Redis takes for all its keys, with their tables."""
    return sum([await direct.memory_usage(key, samples=0) or 0 async for key in direct.scan_iter()])


# Waiting in the broker


async def test_tasks_wait_in_the_broker_in_bundles_a_queue_for_each_priority(queue, direct, depths):
    run = await start(queue, *pages(1_000), *pages(30, "b.example", priority=7))
    assert [await depths.of(run, kind) for kind in ("p0", "p7", "p1")] == [4, 1, None]
    assert not await direct.keys("*:q:*")
    assert await direct.hlen("{shoal:0}:outgoing") == 0
    assert (await queue.stats(run.id)).pending == 1_030


@pytest.mark.long
async def test_a_url_in_the_broker_takes_less_than_30_bytes_of_redis(queue, direct):
    tasks = [page(n, f"www.shop-{n % 300}.example.com") for n in range(30_300)]
    # What the run and its hosts take is not measured, nor what the server takes for itself: scripts, buffers
    # of connections and what it frees in the background differ from run to run by several bytes for each URL.
    run = await start(queue, *tasks[:300])
    before = await size_of_keys(direct)
    await queue.enqueue(run.id, tasks[300:])
    async with asyncio.timeout(30):
        while await direct.hlen("{shoal:0}:outgoing"):  # kept until the broker has confirmed them
            await asyncio.sleep(0.01)
    used = (await size_of_keys(direct) - before) / 30_000
    print(f"{used:.1f} bytes")
    assert used < 20, f"{used:.0f} bytes"  # the server itself takes up to 8 more


async def test_a_host_with_a_long_delay_leaves_its_tasks_in_the_broker(queue, depths):
    run = await start(queue, *pages(6_000), host_delay=HOUR)
    assert len(await claim(queue, run)) == 1
    left = await depths.of(run, "p0")
    assert left > 15
    for _ in range(3):
        assert await claim(queue, run) == []
    assert await depths.of(run, "p0") == left


async def test_tasks_of_a_host_that_is_paused_or_full_stay_in_the_broker(queue, depths):
    run = await start(queue, *pages(500), per_host=1)
    await queue.pause_host("a.example", HOUR)
    assert await claim(queue, run) == []
    assert await depths.of(run, "p0") == 2
    other = await start(queue, page("else", "b.example"))
    full = await start(queue, *pages(500, "b.example"), per_host=1)
    assert len(await claim(queue, other)) == 1
    assert await claim(queue, full) == []
    assert await depths.of(full, "p0") == 2


async def test_a_free_host_is_found_behind_the_backlog_of_a_blocked_one(queue):
    run = await start(queue, *pages(3_000, "full.example"), page("free", "free.example"), per_host=3_000)
    await queue.pause_host("full.example", HOUR)
    assert paths(await claim(queue, run, limit=1)) == ["free.example/free"]
    await queue.pause_host("full.example", ZERO)
    assert len(await claim_all(queue, run, limit=500)) == 3_000


@pytest.mark.long
async def test_what_waits_in_the_broker_costs_a_claim_nothing(queue, direct):
    small = await start(queue, *(page(n, f"h{n % 20}.example") for n in range(400)), run_id="small")
    large = await start(queue, *(page(n, f"h{n % 20}.example") for n in range(4_000)), run_id="large")
    costs = []
    for run in (small, large):
        await claim(queue, run, limit=10)
        costs.append(await commands_of(direct, claim(queue, run, limit=10)))
    assert abs(costs[0] - costs[1]) <= TOLERANCE


# Clients that die


@pytest.mark.parametrize("verb", ["claim", "reclaim"])
async def test_what_a_producer_stored_and_never_published_is_published_by_others(dying, later, depths, verb):
    run = await dying.start_run("books", settings=RunSettings(host_delay=ZERO, per_host=1000))
    with pytest.raises(QueueUnavailable):
        await dying.enqueue(run.id, pages(300))
    assert await depths.of(run, "p0") is None
    assert not await claim(dying, run)
    if verb == "reclaim":
        await later.reclaim()
        assert await depths.of(run, "p0") == 2
    assert len(await claim_all(later, run)) == 300
    assert (await later.enqueue(run.id, pages(300))).duplicate == 300


async def test_follow_ups_and_retries_that_a_worker_never_published_are_published_by_others(
    queue, later, monkeypatch
):
    run = await start(queue, page(1), page(2))
    first, second = await claim_all(queue, run)

    async def nothing(bundles, wait):
        raise QueueUnavailable("nowhere", "this process has ended")

    monkeypatch.setattr(queue._server, "publish", nothing)
    await queue.settle([Done(first, follow=pages(10, "b.example")), Retry(second, "busy", after=20 * SECOND)])
    assert len(await claim_all(later, run)) == 10
    assert (await later.stats(run.id)).delayed == 1


async def test_a_received_bundle_that_is_delivered_again_changes_nothing(queue, rabbitmq_url, monkeypatch):
    run = await start(queue, *pages(300))
    async with await RabbitQueue.open(rabbitmq_url) as dead:

        async def nothing(delivery):
            return None

        monkeypatch.setattr(dead._broker, "acknowledge", nothing)
        leases = await claim_all(dead, run, limit=100)
    await queue.settle([Done(lease) for lease in leases])
    assert len(leases) == 300
    await queue.enqueue(run.id, [page("new")])
    assert len(await claim_all(queue, run)) == 1
    assert (await queue.stats(run.id)).tasks == 301


async def test_a_bundle_that_a_dead_worker_had_fetched_is_delivered_again(queue, rabbitmq_url, depths):
    run = await start(queue, *pages(100))
    dead = await RabbitQueue.open(rabbitmq_url)
    assert await dead._broker.fetch((await depths.names(run)).of(0))
    grant = await queue.claim("worker-1", run_id=run.id)
    assert (list(grant.leases), grant.drained) == ([], False)
    assert ZERO < grant.next_due <= SECOND
    await dead.close()
    assert len(await claim_all(queue, run)) == 100


async def test_a_bundle_that_another_worker_holds_blocks_only_its_hosts(queue, rabbitmq_url, depths):
    run = await start(queue, page("first", priority=9), page("second"), page(1, "b.example"))
    frozen = await RabbitQueue.open(rabbitmq_url)
    assert await frozen._broker.fetch((await depths.names(run)).of(9))
    assert paths(await claim_all(queue, run)) == ["b.example/1"]
    await frozen.close()
    assert [(await claim_one(queue, run)).task.priority for _ in range(2)] == [9, 0]


async def test_a_bundle_that_redis_has_lost_enters_again(queue, direct):
    run = await start(queue)
    kept = {key: await direct.dump(key) for key in await direct.keys("*")}
    await queue.enqueue(run.id, [*pages(250, ttl=HOUR), page("waits", delay=HOUR)])
    await direct.flushdb()  # as a server that lost its last second
    for key, value in kept.items():
        await direct.restore(key, 0, value)
    await queue.enqueue(run.id, [page("new"), page(7)])
    leases = await claim_all(queue, run)
    assert len({lease.task_id for lease in leases}) == len(leases) == 251
    assert {lease.task.ttl for lease in leases} == {None, HOUR}


# Delays, dead letters and purges


@pytest.mark.long
async def test_a_long_delay_is_spent_in_a_delay_queue_of_the_broker(queue, depths, direct):
    run = await start(queue, page(1, delay=HOUR), page(2, delay=11 * SECOND), page(3, delay=SECOND))
    assert [await depths.of(run, kind) for kind in ("wait-2560s", "wait-10s")] == [1, 1]
    assert (await queue.stats(run.id)).delayed == 3
    assert await direct.hlen("{shoal:0}:1:bodies") == 1  # the short one
    async with asyncio.timeout(20):
        while not await depths.of(run, "due"):
            await asyncio.sleep(0.1)
    assert await depths.of(run, "wait-10s") == 0
    async with asyncio.timeout(10):
        leases = []
        while len(leases) < 2:
            leases += await claim(queue, run)
            await asyncio.sleep(0.05)
    assert (await queue.stats(run.id)).delayed == 1


async def test_the_dead_letter_queue_holds_a_readable_copy(queue, depths):
    run = await start(queue, page(1, payload={"n": 1}, step="detail"))
    await queue.settle([Bury(await claim_one(queue, run), "status 404")])
    message = await depths.take(run, "dead")
    letter = json.loads(message.body)
    assert (letter["url"], letter["step"], letter["payload"]) == ("https://a.example/1", "detail", {"n": 1})
    assert (letter["error"], letter["attempts"], letter["run_id"]) == ("status 404", 1, run.id)
    assert message.header.properties.content_type == "application/json"
    assert (await depths.names(run)).dead.arguments["x-message-ttl"] == 24 * HOUR / (SECOND / 1000)
    assert await queue.replay(run.id) == 1


async def test_a_purged_run_leaves_no_queue_and_no_key(queue, depths, direct):
    run = await start(queue, *pages(500), page("x", priority=3), page("y", delay=HOUR))
    await queue.settle([Bury(lease, "no") for lease in await claim(queue, run, limit=1)])
    names = await depths.names(run)
    await queue.purge(run.id)
    for kind in ("p0", "p3", "wait-2560s", "due", "dead"):
        assert await depths.named(names.prefix + kind) is None
    left = {key.decode().partition(":")[2].partition(":")[2] for key in await direct.keys("*")}
    assert {name for name in left if not name.startswith("receipt:")} == {
        *("meta", "host_limits", "hosts", "gone")
    }


async def test_a_run_with_tasks_on_very_many_hosts_can_be_purged(queue, direct):
    run = await start(queue, *(page(n, f"h{n}.example") for n in range(8_000)))
    async with asyncio.timeout(60):
        await queue.purge(run.id)
    assert not await direct.keys("*:broker_host_queues:*")


async def test_what_is_published_for_a_purged_run_leaves_no_queue(queue, depths, monkeypatch):
    run = await start(queue)
    names = await depths.names(run)
    publish = queue._server.publish

    async def purge_first(bundles, wait):
        await queue._runs.purge(run.id)
        await publish(bundles, wait)

    monkeypatch.setattr(queue._server, "publish", purge_first)
    await queue.enqueue(run.id, pages(10))
    assert await depths.named(names.prefix + "p0") is None


async def test_two_queues_on_one_broker_do_not_mix(queue, rabbitmq, redis):
    run = await start(queue, *pages(10), run_id="same")
    async with await RabbitQueue.open(rabbitmq.with_state(redis.url(2))) as other:
        twin = await start(other, *pages(5), run_id="same")
        assert len(await claim_all(other, twin)) == 5
        assert len(await claim_all(queue, run)) == 10
        await other.purge(twin.id)


async def test_a_lost_broker_does_not_cost_the_leases_of_the_claim(queue, monkeypatch):
    run = await start(queue, *pages(200), *pages(200, "b.example", priority=1))
    await claim(queue, run, limit=1)
    await queue._broker._in.disconnect()
    monkeypatch.setattr(queue._broker._in, "_urls", [f"amqp://127.0.0.1:{free_port()}/"])
    assert len(await claim(queue, run, limit=300)) == 199
