"""Lost requests and replies where Redis differs; the tests for all backends are in `queues`."""

import asyncio

from shoal.core.model import MINUTE, SECOND, Done
from shoal.queue.redis.claim import claim_arguments
from shoal.queue.redis.records import read_claim
from shoal.queue.requests import ClaimRequest
from tests.conformance.helpers import claim, page, pages, start


async def test_a_run_that_is_being_forgotten_is_forgotten_once(shaky, queue):
    run, neighbour = await start(queue, *pages(3)), await start(queue, *pages(3))
    async with shaky.on("forget") as it:
        await it.purge(run.id)
    assert [left.id for left in await queue.runs()] == [neighbour.id]
    assert (await queue.stats(neighbour.id)).pending == 3


async def test_a_lease_whose_reply_is_late_does_not_last_longer(shaky, queue):
    run = await start(queue, page())
    async with shaky.on("claim") as it:
        claiming = asyncio.create_task(it.claim("worker-1", run_id=run.id, lease=MINUTE))
        while not shaky.proxy.struck:
            await asyncio.sleep(0)
        await shaky.proxy.refuse()
        await asyncio.sleep(0.3)
        await shaky.proxy.accept()
        (lease,) = (await claiming).leases
    assert lease.deadline_in <= MINUTE - 0.3 * SECOND


async def test_a_caller_that_got_its_replies_leaves_one_receipt(queue, direct):
    run = await start(queue, *pages(30))
    for _ in range(10):
        await queue.settle([Done(lease) for lease in await claim(queue, run, limit=3)])
    assert len(await direct.keys("*receipt:*")) <= 2


async def test_a_claim_that_arrives_after_its_repetition_leases_nothing(queue):
    run = await start(queue)
    arguments = (run.id, *claim_arguments(ClaimRequest("worker-1", run.id, 5, MINUTE), 5, 0))
    tries, server = [], queue._server
    original = server._run

    async def lose_the_first(script, shard, call, acked, args):
        tries.append((script, shard, call, acked, args))
        if len(tries) == 1:
            raise ConnectionResetError
        return await original(script, shard, call, acked, args)

    server._run = lose_the_first
    try:
        _, leases = read_claim(await server.once("claim", 0, *arguments), run.id)
    finally:
        server._run = original
    assert (leases, len(tries)) == ([], 2)
    await queue.enqueue(run.id, pages(3))
    _, leases = read_claim(await original(*tries[0]), run.id)  # the network had only delayed it
    assert leases == []
    assert (await queue.stats(run.id)).leased == 0
    assert len(await claim(queue, run)) == 3
