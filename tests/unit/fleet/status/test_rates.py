"""The stored rate of a run: bounded, shared by pools, and deleted with the run."""

from datetime import timedelta

import pytest

from shoal.core.model import Done, Task
from shoal.fleet.run.lifecycle import purge
from shoal.fleet.status import rates
from shoal.fleet.status.rates import (
    FIRST_INTERVAL_SECONDS,
    MAX_POINTS,
    RateHistory,
    add_rate,
    read_rates,
    recent_rate,
    recorded_rates,
)
from tests.conformance.backends import VirtualClock
from tests.conformance.model import ModelQueue


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def queue(clock):
    return ModelQueue(clock.now)


async def make_run(queue, tasks=4):
    run = await queue.start_run("books")
    await queue.enqueue(run.id, [Task(url=f"https://{n}.example/") for n in range(tasks)])
    return run


async def complete_all(queue, run):
    leases = (await queue.claim("machine-1-abcd", run_id=run.id)).leases
    await queue.settle([Done(lease) for lease in leases])


def test_a_long_run_has_no_more_points_than_a_short_one_and_keeps_its_first_and_last():
    history = RateHistory()
    for second in range(100_000):
        history.add(float(second), 2 * second)
    assert len(history.points) <= MAX_POINTS
    assert (history.points[0], history.points[-1]) == ((0.0, 0), (99_999.0, 199_998))
    assert {rate for _, rate in history.rates()[1:]} == {2.0}


def test_a_time_without_workers_is_a_gap_and_replayed_letters_are_no_negative_rate():
    history = RateHistory()
    for at, ended in ((0, 0), (2, 10), (500, 10), (502, 4)):
        history.add(at, ended)
    assert history.rates() == [(0, None), (2, 5.0), (2.1, None), (500, None), (502, 0.0)]


async def test_the_points_of_a_pool_are_stored_and_the_last_one_has_everything(queue):
    run = await make_run(queue)
    async with recorded_rates(queue, run.id):
        await complete_all(queue, run)
    assert (await read_rates(queue, run.id)).points[-1][1] == 4


async def test_many_pools_add_one_point_in_an_interval_by_the_clock_of_the_store(queue, clock):
    run = await make_run(queue)
    for _ in range(3):
        await add_rate(queue, run.id)
    await clock.forward(timedelta(seconds=FIRST_INTERVAL_SECONDS))
    for _ in range(3):
        await add_rate(queue, run.id)
    (first, _), (second, _) = (await read_rates(queue, run.id)).points
    assert second - first == pytest.approx(FIRST_INTERVAL_SECONDS)


async def test_a_purged_run_leaves_no_rates(queue):
    run = await make_run(queue)
    await add_rate(queue, run.id)
    await purge(queue, run.id)
    assert await queue.notes(rates.TOPIC) == {}


async def test_the_recent_rate_needs_no_second_look(queue, clock):
    run = await make_run(queue)
    assert await recent_rate(queue, run.id, 0) is None, "no pool has stored anything"
    await add_rate(queue, run.id)
    assert await recent_rate(queue, run.id, 0) is None, "too short a time"
    await clock.forward(timedelta(seconds=8))
    assert await recent_rate(queue, run.id, 4) == 0.5
    await clock.forward(timedelta(minutes=5))
    assert await recent_rate(queue, run.id, 4) is None, "nobody is at work any more"
