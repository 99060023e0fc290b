"""Lost calls and replies where PostgreSQL differs from the other servers; the rest is in `queues`."""

import asyncio

from shoal.core.model import MINUTE, SECOND, EnqueueReport
from shoal.queue.open import open_queue
from tests.conformance.helpers import HOUR, page, pages, start

HALF_A_MINUTE_LATER = """
    UPDATE shoal.lease SET start_at = start_at - interval '30 s', deadline = deadline - interval '30 s'
"""


async def test_tidying_up_twice_changes_nothing(shaky, queue, direct):
    run = await start(queue, page(1, delay=HOUR), page(2, ttl=HOUR), page(3))
    await direct.execute("UPDATE shoal.delayed SET due_at = clock_timestamp()")
    await direct.execute(
        "UPDATE shoal.bundle SET expires_at = clock_timestamp() WHERE expires_at IS NOT NULL"
    )
    async with shaky.on("tidy") as it:
        await it.reclaim()
    stats = await queue.stats(run.id)
    assert (stats.pending, stats.delayed, stats.expired, stats.tasks) == (2, 0, 1, 3)


async def test_a_lease_that_is_heard_of_late_is_not_believed_to_last_longer(shaky, queue, direct):
    run = await start(queue, page())
    async with shaky.on("claim") as it:
        claiming = asyncio.create_task(it.claim("worker-1", run_id=run.id, lease=MINUTE))
        while not shaky.proxy.struck:
            await asyncio.sleep(0)
        await shaky.proxy.refuse()
        await direct.execute(HALF_A_MINUTE_LATER)
        await shaky.proxy.accept()
        (lease,) = (await claiming).leases
    left = await direct.fetchval("SELECT deadline - clock_timestamp() FROM shoal.lease")
    assert lease.deadline_in <= left + SECOND


async def test_a_call_is_not_done_twice_while_its_first_try_is_under_way(stand, proxy, queue, direct):
    run = await start(queue)
    async with open_queue(stand.through(proxy.port)) as it:
        async with direct.transaction():
            await direct.execute("LOCK TABLE shoal.receipt IN EXCLUSIVE MODE")  # the last thing a call needs
            putting = asyncio.create_task(it.enqueue(run.id, pages(10)))
            await waiting(direct, "relation")
            await proxy.cut()
            await waiting(direct, "advisory")
        assert await putting == EnqueueReport(added=10)
    assert (await queue.stats(run.id)).pending == 10


async def waiting(direct, lock):
    """Wait until a call waits for a lock of this kind."""
    query = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = $1)"
    async with asyncio.timeout(5):
        while not await direct.fetchval(query, lock):
            await asyncio.sleep(0.005)
