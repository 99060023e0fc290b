"""Lost requests and replies of the Redis beside the broker; the tests for all backends are in `queues`."""

from shoal.core.model import Done, Fate
from tests.conformance.helpers import claim, claim_all, page, pages, start


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


async def test_a_bundle_is_received_once(shaky, queue):
    run = await start(queue, *pages(300))
    async with shaky.on("receive") as it:
        leases = await claim_all(it, run, limit=100)
    assert len({lease.task_id for lease in leases}) == len(leases) == 300
    assert (await queue.stats(run.id)).tasks == 300


async def test_a_published_bundle_is_deleted_from_redis(shaky, queue, direct):
    run = await start(queue)
    async with shaky.on("confirm_sent") as it:
        await it.enqueue(run.id, pages(10))
    assert await direct.hlen("{shoal:0}:outgoing") == 0
    assert len(await claim_all(queue, run)) == 10
