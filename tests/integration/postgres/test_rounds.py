"""A claim searches in rounds, each of which has a token of its own: few of them find a hundred tasks."""

from shoal.core.model import Done
from tests.conformance.helpers import claim, page, start

MARKED = "SELECT count(*) FROM shoal.host_queue WHERE idle IS NOT NULL"


def host(number: int) -> str:
    return f"h{number}.example"


def tokens(leases):
    return {lease.token for lease in leases}


async def test_a_claim_that_finds_one_task_a_host_soon_reads_enough_hosts(queue):
    run = await start(queue, *(page(1, host(number)) for number in range(120)), per_host=8)
    leases = await claim(queue, run, limit=100)
    assert len(leases) == 100
    assert len(tokens(leases)) <= 4


async def test_host_queues_that_wait_to_be_closed_are_no_part_of_the_search(queue, direct):
    run = await start(queue, *(page(1, host(number)) for number in range(60)), per_host=8)
    await queue.settle([Done(lease) for lease in await claim(queue, run, limit=60)])
    assert await direct.fetchval(MARKED) == 60
    await direct.execute("UPDATE shoal.host_queue SET due_at = clock_timestamp()")
    busy = [page(number, host(100 + each)) for number in range(8) for each in range(13)]
    await queue.enqueue(run.id, busy)
    leases = await claim(queue, run, limit=100)
    assert len(leases) == 100
    assert len(tokens(leases)) == 1
