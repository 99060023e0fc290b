"""Returning a dead worker's leases while other calls have locked them."""

import asyncio

import pytest

from shoal.core.model import Done, Fate
from tests.conformance.helpers import HOUR, claim_all, pages, start
from tests.integration.postgres.locks import someone_waits

DEAD = "dead-1"


class Failed(Exception):
    """Raised to roll back a call of another worker."""


async def test_a_lease_that_is_being_extended_is_waited_for(queue, direct, uncommitted):
    run = await start(queue, *pages(5))
    leases = await claim_all(queue, run, DEAD)
    async with uncommitted() as zombie:
        assert await zombie.extend(leases, lease=HOUR) == [Fate.ACCEPTED] * 5
        abandoning = asyncio.create_task(queue.abandon(DEAD))
        await someone_waits(direct)
    assert await abandoning == 5
    assert (await queue.stats(run.id)).pending == 5


async def test_what_is_free_goes_back_before_the_rest_is_waited_for(queue, direct, uncommitted):
    run = await start(queue, *pages(5))
    settled, *free = await claim_all(queue, run, DEAD)
    async with uncommitted() as zombie:
        assert await zombie.settle([Done(settled, items=["a"])]) == [Fate.ACCEPTED]
        abandoning = asyncio.create_task(queue.abandon(DEAD))
        await someone_waits(direct)
        assert (await queue.stats(run.id)).pending == len(free)
    assert await abandoning == len(free)
    stats = await queue.stats(run.id)
    assert (stats.completed, stats.pending, stats.leased, stats.items) == (1, 4, 0, 1)


async def test_a_lease_whose_settlement_failed_goes_back_too(queue, direct, uncommitted):
    run = await start(queue, *pages(5))
    leases = await claim_all(queue, run, DEAD)
    with pytest.raises(Failed):
        async with uncommitted() as zombie:
            await zombie.settle([Done(lease, items=["a"]) for lease in leases])
            abandoning = asyncio.create_task(queue.abandon(DEAD))
            await someone_waits(direct)
            raise Failed
    assert await abandoning == 5
    stats = await queue.stats(run.id)
    assert (stats.completed, stats.pending, stats.items) == (0, 5, 0)


async def test_a_purge_under_way_leaves_nothing_to_hand_back(queue, direct, uncommitted):
    run = await start(queue, *pages(5))
    await claim_all(queue, run, DEAD)
    async with uncommitted() as operator:
        await operator.purge(run.id)
        abandoning = asyncio.create_task(queue.abandon(DEAD))
        await someone_waits(direct)
    assert await abandoning == 0
    left = [await direct.fetchval(f"SELECT count(*) FROM shoal.{table}") for table in ("lease", "bundle")]
    assert left == [0, 0]


async def test_who_waits_for_a_lease_holds_no_other(queue, direct, uncommitted):
    run = await start(queue, *pages(5))
    leases = {lease.task_id: lease for lease in await claim_all(queue, run, DEAD)}
    first, *_, last = [leases[row["task"].hex()] for row in await direct.fetch(AS_THEY_LIE)]
    async with uncommitted() as zombie:
        assert await zombie.settle([Done(last)]) == [Fate.ACCEPTED]
        abandoning = asyncio.create_task(queue.abandon(DEAD))
        await someone_waits(direct)
        assert await zombie.settle([Done(first)]) == [Fate.STALE]
    assert await abandoning == 4
    assert await direct.fetchval(DEADLOCKS) == 0


AS_THEY_LIE = "SELECT task FROM shoal.lease ORDER BY ctid"
DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
