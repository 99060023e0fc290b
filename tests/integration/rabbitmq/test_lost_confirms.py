"""A lost request or reply between client and broker: every task is leased, and once."""

import pytest

from shoal.core.model import Bury, Done
from shoal.queue.rabbitmq.queue import RabbitQueue
from tests.conformance.helpers import claim, claim_all, page, pages, start
from tests.integration.shaky import LOST_TWICE, TROUBLES, Shaky, deaf
from tests.servers.lossy_proxy import LossyProxy
from tests.servers.rabbitmq_talk import RabbitTalk


@pytest.fixture
def talk():
    return deaf(RabbitTalk)


@pytest.fixture
async def proxy(rabbitmq, talk):
    async with LossyProxy(rabbitmq.port, talk) as proxy:
        yield proxy


@pytest.fixture(params=[*TROUBLES, LOST_TWICE])
async def shaky(request, proxy, talk, redis_url):
    url = f"amqp://guest:guest@127.0.0.1:{proxy.port}/?state={redis_url}"
    async with await RabbitQueue.open(url) as queue:
        yield Shaky(queue, proxy, talk, request.param, mark=str)


async def assert_each_once(queue, run, number):
    leases = await claim_all(queue, run, limit=100)
    assert len({lease.task_id for lease in leases}) == len(leases) == number
    await queue.settle([Done(lease) for lease in leases])
    assert (await queue.claim("worker-1", run_id=run.id)).drained
    stats = await queue.stats(run.id)
    assert (stats.remaining, stats.tasks) == (0, stats.completed + stats.dead)


@pytest.mark.parametrize("method", ["declare", "publish"])
async def test_tasks_that_are_enqueued_arrive(shaky, queue, method):
    run = await start(queue)
    async with shaky.on(method) as it:
        assert (await it.enqueue(run.id, pages(300))).added == 300
    await assert_each_once(queue, run, 300)


@pytest.mark.parametrize("method", ["declare", "publish"])
async def test_follow_ups_arrive(shaky, queue, method):
    run = await start(queue, page())
    (lease,) = await claim(queue, run)
    async with shaky.on(method) as it:
        await it.settle([Done(lease, follow=pages(20, "b.example", priority=3))])
    await assert_each_once(queue, run, 20)


async def test_bundles_that_are_fetched_are_received(shaky, queue):
    run = await start(queue, *pages(300))
    async with shaky.on("get") as it:
        leases = await claim(it, run, limit=100)
    await queue.settle([Done(lease) for lease in leases])
    await assert_each_once(queue, run, 300 - len(leases))


async def test_copies_of_dead_letters_arrive(shaky, queue, depths):
    run = await start(queue, page())
    leases = await claim(queue, run)
    async with shaky.on("publish") as it:
        await it.settle([Bury(lease, "gone") for lease in leases])
    assert await depths.of(run, "dead") >= 1


async def test_the_queues_of_a_purged_run_go(shaky, queue, depths):
    run = await start(queue, *pages(10))
    name = (await depths.names(run)).prefix + "p0"
    async with shaky.on("delete") as it:
        await it.purge(run.id)
    assert await depths.named(name) is None
    assert await queue.runs() == []
