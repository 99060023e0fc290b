"""A call whose request or answer is lost on the way to Redis is repeated: it is done once."""

import asyncio

import pytest

from shoal.core.model import MINUTE, SECOND, Done, Fate
from shoal.queue.rabbitmq.queue import RabbitQueue
from shoal.queue.rabbitmq.scripts import SCRIPTS
from tests.conformance.helpers import claim, claim_all, page, pages, start
from tests.integration.rabbitmq.shaky import Shaky
from tests.integration.redis.shaky import DeafTalk
from tests.integration.redis.test_lost_replies import (  # noqa: F401 - they run here once more
    TROUBLES,
    run_with_dead,
    test_a_heartbeat_arrives,
    test_a_host_is_paused_and_slowed,
    test_a_lost_claim_that_granted_nothing_still_says_when_to_come_back,
    test_a_run_is_paused_resumed_and_cancelled,
    test_a_run_is_purged_and_its_neighbour_stays,
    test_a_run_is_started_once,
    test_abandon_counts_what_it_gave_back,
    test_an_answer_that_is_lost_twice_is_heard_the_third_time,
    test_drop_counts_what_it_gave_up,
    test_enqueue_counts_each_key_once,
    test_extend_answers_for_the_leases_that_live,
    test_looking_is_simply_done_again,
    test_reclaim_counts_what_it_took_back,
    test_replay_counts_what_it_put_back,
    test_settle_stores_items_follow_ups_and_failures_once,
    test_the_tasks_of_a_lost_claim_are_handed_to_the_same_worker,
)
from tests.servers.lossy_proxy import LossyProxy


@pytest.fixture
def talk():
    """A protocol reader of this test's own, for its orders are kept in the class."""
    return type("Talk", (DeafTalk,), {})


@pytest.fixture
async def proxy(redis, talk):
    async with LossyProxy(redis.port, talk) as proxy:
        yield proxy


@pytest.fixture(params=TROUBLES)
async def shaky(request, rabbitmq, proxy, talk, direct):
    for script in SCRIPTS.values():  # so that every call goes by name
        await direct.script_load(script.text)
    url = rabbitmq.with_state(f"redis://127.0.0.1:{proxy.port}/0")
    async with await RabbitQueue.open(url) as queue:
        yield Shaky(queue, proxy, talk, request.param)


async def test_what_was_enqueued_is_in_the_broker_at_once(shaky, queue):
    run = await start(queue)
    async with shaky.on("enqueue") as it:
        assert (await it.enqueue(run.id, pages(300))).added == 300
    assert len(await claim_all(queue, run)) == 300


async def test_the_follow_ups_of_a_settlement_are_in_the_broker_at_once(shaky, queue):
    run = await start(queue, page())
    leases = await claim(queue, run)
    async with shaky.on("settle") as it:
        assert await it.settle([Done(leases[0], follow=pages(20, "b.example"))]) == [Fate.ACCEPTED]
    assert len(await claim_all(queue, run)) == 20


async def test_a_bundle_comes_ashore_once(shaky, queue):
    run = await start(queue, *pages(300))
    async with shaky.on("land") as it:
        leases = await claim_all(it, run, limit=100)
    assert len({lease.task_id for lease in leases}) == len(leases) == 300
    assert (await queue.stats(run.id)).tasks == 300


async def test_a_bundle_that_redis_still_has_is_dropped_there_once_it_is_safe(shaky, queue, direct):
    run = await start(queue)
    async with shaky.on("sent") as it:
        await it.enqueue(run.id, pages(10))
    assert await direct.hlen("{shoal:0}:sailing") == 0
    assert len(await claim_all(queue, run)) == 10


@pytest.mark.parametrize("shaky", ["the answer is lost"], indirect=True)
async def test_a_lease_that_is_heard_of_late_is_not_believed_to_last_longer(shaky, queue):
    run = await start(queue, *pages(2))
    await claim(queue, run, limit=1)  # the other is ashore with it
    async with shaky.on("claim") as it:
        claiming = asyncio.create_task(it.claim("worker-1", run_id=run.id, lease=MINUTE))
        while not shaky.proxy.struck:
            await asyncio.sleep(0)
        await shaky.proxy.refuse()
        await asyncio.sleep(0.3)
        await shaky.proxy.accept()
        (lease,) = (await claiming).leases
    assert lease.deadline_in <= MINUTE - 0.3 * SECOND
