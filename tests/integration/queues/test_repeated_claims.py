"""A claim whose answer was lost is repeated: it tells the starts that it had planned, and no others."""

import asyncio

from shoal.core.model import SECOND, ZERO, TaskState
from tests.conformance.helpers import pages, start

PLAY = SECOND / 100


async def test_a_repeated_claim_tells_the_starts_that_others_count_from(shaky):
    run = await start(shaky.queue, *pages(3), host_delay=SECOND / 4)
    async with asyncio.timeout(30):
        # A claim grants nothing while the tasks are still on their way from the broker.
        while not (grant := await repeat_a_claim(shaky, run)).leases:
            pass
    planned = [status.since async for status in shaky.queue.tasks(run.id, states=[TaskState.LEASED])]
    told = [grant.claimed_at + lease.start_in for lease in grant.leases]
    assert all(lease.start_in >= ZERO for lease in grant.leases)
    for one, other in zip(sorted(told), sorted(planned), strict=True):
        assert abs(one - other) < PLAY


async def repeat_a_claim(shaky, run):
    """Claim, lose the answer, and return that of the repetition, which comes after the planned starts."""
    async with shaky.on("claim") as queue:
        claiming = asyncio.create_task(queue.claim("worker-1", run_id=run.id))
        while not shaky.proxy.struck:
            await asyncio.sleep(0.001)
        await shaky.proxy.refuse()
        await asyncio.sleep(0.4)  # the time in which the starts pass, which is what this is about
        await shaky.proxy.accept()
        return await claiming
