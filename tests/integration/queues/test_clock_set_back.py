"""The clock of the machine that has the store is set back in the middle of a run."""

from datetime import timedelta
from functools import partial

import pytest

from shoal.core.model import MINUTE, SECOND, Done, Fate, Retry
from shoal.queue.postgres.queue import PostgresQueue
from shoal.queue.redis.queue import RedisQueue
from shoal.queue.sqlite.queue import SqliteQueue
from tests.conformance.backends import ServerClock, SkewedClock, VirtualClock
from tests.conformance.helpers import HOUR, claim, pages, start

DAY = 24 * HOUR


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def opened(request, tmp_path):
    """A store's clock, and a function that opens a queue by it."""
    if request.param == "sqlite":
        clock = VirtualClock()
        return clock, partial(SqliteQueue.open, tmp_path / "queue.db", now=clock.now)
    if request.param == "postgres":
        return ServerClock(url := request.getfixturevalue("postgres_url")), partial(PostgresQueue.open, url)
    moved = SkewedClock()
    return moved, partial(RedisQueue.open, request.getfixturevalue("redis_url"), skew=lambda: moved.skew)


@pytest.fixture
async def clock(opened):
    yield opened[0]
    if isinstance(opened[0], ServerClock):
        await opened[0].close()


@pytest.fixture
async def queue(opened):
    async with await opened[1]() as queue:
        getattr(opened[0], "queues", []).append(queue)
        yield queue


def is_right(clock, moment):
    """Whether a time of the store is that of the machine; a server's goes on meanwhile."""
    return abs(moment - clock.now()) < MINUTE


async def set_back(queue, clock, run, back=HOUR):
    """Set the machine's clock back; the next claim or reclaim notices."""
    await clock.forward(-back)
    await queue.reclaim()
    assert await claim(queue, run, "worker-2", partitions=["none"]) == []


async def fetch(queue, clock, run):
    (lease,) = await claim_after(queue, clock, run, 6)
    assert await queue.settle([Done(lease)]) == [Fate.ACCEPTED]


async def claim_after(queue, clock, run, seconds, **asked):
    await clock.forward(timedelta(seconds=seconds))
    return await claim(queue, run, **asked)


@pytest.mark.parametrize(("back", "delay"), [(HOUR, SECOND), (400 * DAY, timedelta(0))], ids=str)
async def test_hosts_get_requests_after_the_clock_is_set_back(queue, clock, back, delay):
    run = await start(queue, *pages(100), host_delay=delay, per_host=1)
    await fetch(queue, clock, run)
    await set_back(queue, clock, run, back)
    for _ in range(3):
        await fetch(queue, clock, run)


async def test_the_gap_of_a_host_is_kept_when_the_clock_is_set_back(queue, clock):
    run = await start(queue, *pages(100), host_delay=MINUTE)
    assert len(await claim_after(queue, clock, run, 1)) == 1
    await set_back(queue, clock, run)
    assert await claim_after(queue, clock, run, 50) == []
    assert len(await claim_after(queue, clock, run, 20)) == 1


async def test_a_retry_waits_for_its_delay_and_no_longer_when_the_clock_is_set_back(queue, clock):
    run = await start(queue, *pages(1))
    (lease,) = await claim_after(queue, clock, run, 1)
    await queue.settle([Retry(lease, ValueError("no"), after=MINUTE)])
    await set_back(queue, clock, run)
    assert await claim_after(queue, clock, run, 50) == []
    assert len(await claim_after(queue, clock, run, 20)) == 1


async def test_a_lost_lease_goes_back_in_time_when_the_clock_is_set_back(queue, clock):
    run = await start(queue, *pages(1))
    (dead,) = await claim_after(queue, clock, run, 1, lease=MINUTE)
    await set_back(queue, clock, run)
    assert await claim_after(queue, clock, run, 30) == []
    (alive,) = await claim_after(queue, clock, run, 40)
    assert alive.task_id == dead.task_id
    assert await queue.settle([Done(dead)]) == [Fate.STALE]


async def test_a_process_that_opens_the_queue_later_has_the_same_time(queue, clock, opened):
    run = await start(queue, *pages(100), host_delay=MINUTE)
    await claim_after(queue, clock, run, 1)
    await set_back(queue, clock, run)
    async with await opened[1]() as other:
        getattr(clock, "queues", []).append(other)
        assert await claim_after(other, clock, run, 50) == []
        assert len(await claim_after(other, clock, run, 20)) == 1
    assert await claim_after(queue, clock, run, 50) == []


# PostgreSQL has moved the stored times instead, and treats it as any clock that is set forward.
@pytest.mark.parametrize("opened", ["sqlite", "redis"], indirect=True)
async def test_a_clock_that_is_set_right_again_is_believed(queue, clock):
    await clock.forward(HOUR)
    run = await start(queue, *pages(100), host_delay=MINUTE)
    await claim_after(queue, clock, run, 1)
    await set_back(queue, clock, run)
    await clock.forward(HOUR)
    late = await queue.start_run("later")
    assert is_right(clock, late.started_at)
    assert await claim_after(queue, clock, run, 50) == []
    assert len(await claim_after(queue, clock, run, 20)) == 1


async def test_the_store_goes_by_the_machines_clock_while_that_is_not_set_back(queue, clock):
    run = await start(queue, *pages(100))
    for seconds in (0, 3, 9, -2, 100, -9, 3600):
        await claim_after(queue, clock, run, seconds)
        assert is_right(clock, (await queue.start_run("other")).started_at)
