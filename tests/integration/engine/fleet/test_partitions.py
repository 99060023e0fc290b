"""Partitions are shared out among workers that come and go: all are served, and exclusively none by two."""

import asyncio
import os
from datetime import timedelta

import pytest

from shoal.core.errors import RunConflict
from shoal.core.model import ZERO, RunSettings, Task
from shoal.fleet.partitions.membership import admit
from shoal.queue.open import open_queue
from shoal.worker.partitions import PartitionRole, PartitionShare
from tests.cases import long
from tests.integration.engine.partition_workers import LeaseLog, PartitionWorker, until_planned

STATES = [f"S{number:02}" for number in range(51)]
LEASE = timedelta(seconds=1)
BEAT = timedelta(seconds=2)
EACH = int(os.environ.get("SHOAL_TEST_TASKS_PER_PARTITION", "6"))
EXCLUSIVE = PartitionRole(exclusive=True, heartbeat=BEAT)
BRISK = PartitionRole(exclusive=True, heartbeat=BEAT / 2)
on_sqlite = pytest.mark.parametrize("any_bench", ["sqlite"], indirect=True)
on_three = pytest.mark.parametrize("any_bench", ["postgres", *long("sqlite", "redis")], indirect=True)


@pytest.fixture
async def queue(any_bench):
    async with open_queue(any_bench.queue_url) as queue:
        yield queue


@pytest.fixture
async def hire(queue):
    """Makes hands, none of which outlives the test."""
    hands = []

    def one(*given, **named):
        hands.append(PartitionWorker(given[0], queue, *given[1:], **named))
        return hands[-1]

    yield one
    for hand in hands:
        hand.wake()
        await hand.unplug()


async def filled(queue, names=STATES, each=EACH):
    """Return a run with so many tasks in each partition."""
    run = await queue.start_run("states", settings=RunSettings(host_delay=ZERO, max_attempts=9))
    tasks = [Task(key=f"{name}-{number}", partition=name) for name in names for number in range(each)]
    await queue.enqueue(run.id, tasks)
    return run


@on_three
async def test_three_of_ten_die_and_two_come_and_all_fifty_one_are_served_by_one_at_a_time(queue, hire):
    run, log = await filled(queue), LeaseLog(LEASE)
    hands = [hire(f"hand-{number}", run, EXCLUSIVE, log) for number in range(10)]
    await until_planned(queue, run, [hand.name for hand in hands])
    while len(log.served) < 20:
        await asyncio.sleep(0.01)
    for hand in hands[:3]:
        await hand.unplug()
    hands[:3] = [hire(f"new-{number}", run, EXCLUSIVE, log) for number in range(2)]
    # A beat is what it takes.
    assert await until_planned(queue, run, [hand.name for hand in hands]) < 3 * BEAT.total_seconds()
    async with asyncio.timeout(90):
        await asyncio.gather(*(hand.done() for hand in hands))
    stats = await queue.stats(run.id)
    assert (stats.completed, stats.remaining) == (51 * EACH, 0)
    assert set(log.served) == set(STATES)
    assert log.violations == []


async def crimes_of_a_sleeper(queue, hire):
    """Let a worker sleep past its leases, and wake when another serves its partition."""
    run, log = await filled(queue, STATES[:1], each=60), LeaseLog(LEASE)
    sleeper = hire("sleeper", run, BRISK, log)
    while not log.served:
        await asyncio.sleep(0.001)
    sleeper.stop()
    log.served.clear()
    other = hire("other", run, BRISK, log, pace=0.02)
    async with asyncio.timeout(20):
        while not log.served:
            await asyncio.sleep(0.001)
        sleeper.wake()
        await asyncio.gather(sleeper.done(), other.done())
    assert (await queue.stats(run.id)).completed == 60
    return log.violations


@on_three
async def test_a_worker_that_slept_past_its_leases_serves_nothing_by_the_old_plan(queue, hire):
    assert await crimes_of_a_sleeper(queue, hire) == []


@on_sqlite
async def test_without_the_fence_it_would(queue, hire, monkeypatch):
    monkeypatch.setattr(
        PartitionShare, "fence", property(lambda self: None, lambda self, stamp: None), raising=False
    )
    assert await crimes_of_a_sleeper(queue, hire)


@on_three
async def test_more_workers_than_partitions_serve_all_of_them(queue, hire):
    names, count = STATES[:6], 8
    run, log = await filled(queue, names, each=2), LeaseLog(LEASE)
    hands = [hire(f"hand-{number:02}", run, EXCLUSIVE, log) for number in range(count)]
    async with asyncio.timeout(40):
        await asyncio.gather(*(hand.done() for hand in hands))
    assert (await queue.stats(run.id)).completed == 2 * len(names)
    assert set(log.served) == set(names) and log.violations == []


@on_sqlite
async def test_who_runs_dry_is_given_more_and_new_partitions_are_found(queue, hire):
    run, log = await filled(queue, STATES[:4], each=1), LeaseLog(LEASE)
    await queue.enqueue(run.id, [Task(key=f"late-{n}", partition="late", delay=BEAT) for n in range(3)])
    hands = [hire(f"hand-{number}", run, BRISK, log) for number in range(2)]
    await until_planned(queue, run, [hand.name for hand in hands])
    await queue.enqueue(
        run.id, [Task(key=f"{name}-{n}", partition=name) for name in "xyz" for n in range(40)]
    )
    async with asyncio.timeout(20):
        await asyncio.gather(*(hand.done() for hand in hands))
    assert set(log.served) == {*STATES[:4], "late", *"xyz"} and log.violations == []
    assert {worker for name in "xyz" for worker in log.served[name]} == {"hand-0", "hand-1"}


@on_sqlite
async def test_in_shared_mode_those_without_a_partition_help_with_the_largest(queue, hire):
    run, log = await filled(queue, ["small", "large"], each=0), LeaseLog(LEASE)
    await queue.enqueue(run.id, [Task(key="one", partition="small")])
    await queue.enqueue(run.id, [Task(key=f"{n}", partition="large") for n in range(60)])
    sharing = PartitionRole(heartbeat=BEAT / 2)
    hands = [hire(f"hand-{number}", run, sharing, log) for number in range(3)]
    async with asyncio.timeout(20):
        await asyncio.gather(*(hand.done() for hand in hands))
    assert len(set(log.served["large"])) == 3


@on_sqlite
async def test_workers_without_the_plan_may_not_join_an_exclusive_run_nor_the_other_way_round(queue, hire):
    run, log = await filled(queue, ["x"], each=50), LeaseLog(LEASE)
    hand = hire("hand", run, EXCLUSIVE, log)
    await until_planned(queue, run, ["hand"])
    for sharing in (None, PartitionRole()):
        with pytest.raises(RunConflict, match="--partitions exclusive"):
            await admit(queue, run.id, sharing)
    await admit(queue, run.id, EXCLUSIVE)
    await queue.beat("outsider", run_id=run.id)
    with pytest.raises(RunConflict, match="outsider, which follows no plan"):
        await admit(queue, run.id, EXCLUSIVE)
    await hand.unplug()
    with pytest.raises(RunConflict, match="--partitions exclusive"):  # it may only be asleep
        await admit(queue, run.id, None)
