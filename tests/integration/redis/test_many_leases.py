"""Claims and settlements of many tasks at once."""

from shoal.core.model import Done, Fate
from tests.conformance.helpers import claim, page, pages, start


async def test_each_of_many_leases_of_a_host_is_settled_by_its_own_token(queue, direct):
    # More than 256: a lease differs from the one before in the last byte of its token until that overflows.
    run = await start(queue, *pages(600))
    leases = await claim(queue, run, limit=600)
    first = leases[0].token
    assert [lease.token for lease in leases] == list(range(first, first + 600))
    assert len({lease.task_id for lease in leases}) == 600
    assert len(await direct.smembers("{shoal:0}:live:a.example")) == 600
    assert await queue.settle([Done(lease, items=[{"n": 1}]) for lease in leases]) == [Fate.ACCEPTED] * 600
    assert not await direct.keys("*:live:*")
    (worker,) = await direct.hvals("{shoal:0}:1:workers")
    stats = await queue.stats(run.id)
    assert (stats.completed, stats.items, stats.leased) == (600, 600, 0)
    assert worker == b"\x94\xcd\x02\x58\x00\xcd\x02\x58\x00"  # completed, failed, items, leased


async def test_a_settlement_wakes_all_hosts_that_waited_for_it_together(queue, direct):
    run = await start(queue, *(page(n, f"h{n % 30}.example") for n in range(60)), per_host=1)
    leases = await claim(queue, run, limit=60)
    assert len(leases) == 30
    await direct.config_resetstat()
    await queue.settle([Done(lease) for lease in leases])
    stats = await direct.info("commandstats")
    assert (stats["cmdstat_zadd"]["calls"], stats["cmdstat_sadd"]["calls"]) == (1, 1)
    assert len(await claim(queue, run, limit=60)) == 30
