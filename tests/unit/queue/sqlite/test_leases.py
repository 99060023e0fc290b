"""Changes caused by time are made in batches, so that no process waits long for the file."""

import pytest

from shoal.core.model import MINUTE, SECOND, ZERO, RunSettings
from shoal.queue.sqlite import leases as sweep
from shoal.queue.sqlite.queue import SqliteQueue
from tests.conformance.backends import VirtualClock
from tests.conformance.helpers import page

MAX_PER_SWEEP = 40
MANY = 2 * MAX_PER_SWEEP + 10


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(sweep, "BATCH", MAX_PER_SWEEP // 2)
    monkeypatch.setattr(sweep, "MAX_PER_SWEEP", MAX_PER_SWEEP)


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
async def queue(address, clock):
    async with await SqliteQueue.open(address.path, now=clock.now) as queue:
        yield queue


async def start_many(queue, **fields):
    run = await queue.start_run("books", settings=RunSettings(host_delay=ZERO, per_host=1000))
    await queue.enqueue(run.id, (page(number, **fields) for number in range(MANY)))
    return run


async def test_a_crowd_of_tasks_expires_over_some_claims_and_none_of_them_is_handed_out(queue, clock):
    run = await start_many(queue, ttl=MINUTE)
    await queue.enqueue(run.id, [page("live")])
    await clock.forward(MINUTE)
    expired = [await expired_by_a_claim(queue, run) for _ in range(2)]
    assert expired == [MAX_PER_SWEEP, MAX_PER_SWEEP]
    grant = await queue.claim("worker-1", run_id=run.id)
    assert [lease.task.url for lease in grant.leases] == ["https://a.example/live"]
    stats = await queue.stats(run.id)
    assert (stats.expired, stats.leased, stats.pending, stats.tasks) == (MANY, 1, 0, MANY + 1)


async def expired_by_a_claim(queue, run):
    before = (await queue.stats(run.id)).expired
    grant = await queue.claim("worker-1", run_id=run.id)
    assert (list(grant.leases), grant.drained, grant.next_due) == ([], False, ZERO)
    return (await queue.stats(run.id)).expired - before


async def test_a_crowd_of_delays_that_are_over_is_promoted_over_some_claims(queue, clock):
    run = await start_many(queue, delay=MINUTE)
    await clock.forward(MINUTE)
    grant = await queue.claim("worker-1", run_id=run.id, limit=5)
    assert len(grant.leases) == 5
    stats = await queue.stats(run.id)
    assert (stats.pending, stats.delayed) == (MAX_PER_SWEEP - 5, MANY - MAX_PER_SWEEP)


async def test_a_crowd_of_lost_leases_is_taken_back_over_some_claims(queue, clock):
    run = await queue.start_run("books", settings=RunSettings(host_delay=ZERO, per_host=10 * MANY))
    await queue.enqueue(run.id, (page(number) for number in range(MANY)))
    assert len((await queue.claim("dead-1", run_id=run.id, limit=MANY, lease=SECOND)).leases) == MANY
    await clock.forward(MINUTE)
    await queue.claim("worker-1", run_id=run.id, limit=1)
    assert (await queue.stats(run.id)).leased == MANY - MAX_PER_SWEEP + 1


async def test_a_reclaim_moves_everything_however_much_it_is(queue, clock):
    runs = [await start_many(queue, ttl=MINUTE), await start_many(queue, delay=MINUTE)]
    lost = await queue.claim("dead-1", run_id=runs[0].id, limit=10, lease=SECOND)
    await clock.forward(MINUTE)
    assert await queue.reclaim() == len(lost.leases) == 10
    first, second = [await queue.stats(run.id) for run in runs]
    assert (first.expired, first.remaining) == (MANY, 0)
    assert (second.pending, second.delayed) == (MANY, 0)
