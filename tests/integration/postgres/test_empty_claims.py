"""The cost of a claim that finds nothing: most claims of a polite run are like that."""

from uuid import uuid4

from shoal.core.model import MINUTE, ZERO, Done, Retry
from shoal.core.pacing import BURST_HORIZON
from shoal.queue.postgres.claim import CLAIM
from tests.conformance.helpers import HOUR, claim_one, page, start

SUMS = "SELECT coalesce(sum(calls), 0) FROM pg_stat_xact_user_functions WHERE funcname = 'remaining'"


async def sums_of_an_empty_claim(direct, run) -> int:
    """Return how often a claim that finds nothing sums all deltas of the run."""
    async with direct.transaction():
        await direct.execute("SET LOCAL track_functions = 'all'")
        rows = await direct.fetch(
            *(CLAIM, uuid4(), False, run.id, "meter", 1, MINUTE, BURST_HORIZON, None, None),
            *([], [], None, None, None, ZERO),
        )
        assert [row["task"] for row in rows] == [None]
        return await direct.fetchval(SUMS)


async def test_nothing_is_added_up_while_a_lease_or_a_delayed_task_tells_that_there_is_work(queue, direct):
    run = await start(queue, page(1))
    lease = await claim_one(queue, run)
    assert await sums_of_an_empty_claim(direct, run) == 0
    await queue.settle([Retry(lease, "again", after=HOUR)])
    assert await sums_of_an_empty_claim(direct, run) == 0


async def test_the_end_of_a_run_is_found_by_adding_up(queue, direct):
    run = await start(queue, page(1))
    await queue.settle([Done(await claim_one(queue, run))])
    assert await sums_of_an_empty_claim(direct, run) == 1
    assert (await queue.claim("worker-1", run_id=run.id, limit=1)).drained
