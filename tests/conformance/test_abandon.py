"""The leases of a worker that is known to be dead are returned at once, as if they had never been claimed."""

import asyncio

from shoal.core.model import MINUTE, ZERO, Bury, Done, Fate, Lease, Outcome, Release, Retry, Task
from shoal.queue.contract import Queue
from tests.conformance.backends import Clock, every_store
from tests.conformance.helpers import (
    HOUR,
    TEN,
    claim,
    claim_all,
    claim_one,
    data_of,
    page,
    pages,
    start,
    start_one,
    the_dead,
)

DEAD, ALIVE = "dead-1", "alive-1"


async def test_an_abandoned_task_goes_back_and_its_attempt_is_given_back(queue: Queue) -> None:
    run = await start(queue, *pages(3), max_attempts=1)
    leases = await claim_all(queue, run, DEAD)
    assert await queue.abandon(DEAD) == 3
    stats = await queue.stats(run.id)
    assert (stats.pending, stats.leased, stats.dead, stats.tasks) == (3, 0, 0, 3)
    again = await claim_all(queue, run, ALIVE)
    assert {lease.task_id for lease in again} == {lease.task_id for lease in leases}
    assert [lease.attempt for lease in again] == [1, 1, 1]


async def test_an_abandoned_lease_leaves_no_trace_in_the_history(queue: Queue) -> None:
    run = await start(queue, page(), max_attempts=2)
    await queue.settle([Retry(await claim_one(queue, run, DEAD), "first")])
    await claim_one(queue, run, DEAD)
    await queue.abandon(DEAD)
    second = await claim_one(queue, run, ALIVE)
    assert second.attempt == 2
    await queue.settle([Retry(second, "second")])
    (dead,) = await the_dead(queue, run)
    assert [(attempt.worker_id, attempt.error) for attempt in dead.history] == [
        (DEAD, "first"),
        (ALIVE, "second"),
    ]


def _each(lease: Lease) -> list[Outcome]:
    return [Done(lease, items=[1], follow=[page(9)]), Retry(lease, "x"), Bury(lease, "x"), Release(lease)]


async def test_what_a_zombie_says_of_an_abandoned_lease_is_stale(queue: Queue) -> None:
    run = await start(queue, page())
    zombie = await claim_one(queue, run, DEAD)
    await queue.abandon(DEAD)
    before = await queue.stats(run.id)
    for outcome in _each(zombie):
        assert await queue.settle([outcome]) == [Fate.STALE]
    assert await queue.extend([zombie]) == [Fate.STALE]
    assert await queue.stats(run.id) == before


@every_store
async def test_what_a_zombie_says_stays_stale_when_another_has_the_task(queue: Queue) -> None:
    run = await start(queue, page())
    zombie = await claim_one(queue, run, DEAD)
    await queue.abandon(DEAD)
    alive = await claim_one(queue, run, ALIVE)
    assert alive.token > zombie.token
    for outcome in _each(zombie):
        assert await queue.settle([outcome]) == [Fate.STALE]
    assert await queue.extend([zombie]) == [Fate.STALE]
    assert await queue.settle([Done(alive, items=["alive"])]) == [Fate.ACCEPTED]
    assert await data_of(queue, run) == ["alive"]


async def test_only_the_leases_of_that_worker_go_back(queue: Queue) -> None:
    others = ["w-10", "w", "W-1", ALIVE]
    run = await start(queue, *pages(5))
    leases = [await claim_one(queue, run, other) for other in others]
    for dead in ("w-1", "w*", "w%", "w-_", "w'; --"):  # a careless query would take some for a pattern
        await claim_one(queue, run, dead)
        assert await queue.abandon(dead) == 1
        assert (await queue.stats(run.id)).leased == len(others)
    assert await queue.settle([Done(lease) for lease in leases]) == [Fate.ACCEPTED] * len(others)


async def test_leases_of_all_runs_go_back(queue: Queue) -> None:
    runs = [await start(queue, *pages(3)) for _ in range(4)]
    for run in runs:
        await claim_all(queue, run, DEAD)
    await queue.pause(runs[1].id)
    await queue.cancel(runs[2].id)
    await queue.purge(runs[3].id)
    assert await queue.abandon(DEAD) == 9
    for run in runs[:3]:
        stats = await queue.stats(run.id)
        assert (stats.pending, stats.leased) == (3, 0)
    assert len(await claim_all(queue, runs[0], ALIVE)) == 3
    assert not await claim(queue, runs[1], ALIVE)


async def test_any_number_of_leases_goes_back(queue: Queue) -> None:
    hosts = [page(n, f"h{n % 30}.example") for n in range(1100)]
    run = await start(queue, *hosts, *(Task(payload={"n": n}) for n in range(30)))
    assert len(leases := await claim_all(queue, run, DEAD, limit=1000)) == 1130
    assert await queue.abandon(DEAD) == 1130
    stats = await queue.stats(run.id)
    assert (stats.pending, stats.leased, stats.tasks) == (1130, 0, 1130)
    again = {lease.task_id: lease.task for lease in await claim_all(queue, run, ALIVE, limit=1000)}
    assert again == {lease.task_id: lease.task for lease in leases}


async def test_the_place_at_the_host_is_free_again_for_every_run(queue: Queue) -> None:
    run, other = [await start(queue, *pages(2), per_host=1) for _ in range(2)]
    held = await claim_one(queue, run, DEAD)
    assert not await claim(queue, run, ALIVE)
    assert not await claim(queue, other, ALIVE)
    assert await queue.abandon(DEAD) == 1
    assert (await claim_one(queue, other, ALIVE)).run_id == other.id
    assert await queue.settle([Done(held)]) == [Fate.STALE]
    assert not await claim(queue, run, ALIVE), "a stale settle has freed a place that another holds"


async def test_the_last_start_still_counts_for_the_gap(queue: Queue, clock: Clock) -> None:
    run = await start(queue, *pages(2), host_delay=MINUTE)
    await claim_one(queue, run, DEAD)
    await clock.forward(3 * TEN)
    assert await queue.abandon(DEAD) == 1
    grant = await queue.claim(ALIVE, run_id=run.id)
    assert not grant.leases
    assert grant.next_due is not None
    assert ZERO < grant.next_due <= 3 * TEN
    await clock.forward(3 * TEN)
    assert len(await claim(queue, run, ALIVE)) == 1


async def test_a_lease_past_its_deadline_that_nobody_took_back_is_not_charged(
    queue: Queue, clock: Clock
) -> None:
    run = await start(queue, page(), max_attempts=1)
    await claim_one(queue, run, DEAD, lease=MINUTE)
    await clock.forward(HOUR)
    assert await queue.abandon(DEAD) == 1
    assert await queue.reclaim() == 0
    assert (await claim_one(queue, run, ALIVE)).attempt == 1


async def test_a_lease_that_was_taken_back_is_nobodys(queue: Queue, clock: Clock) -> None:
    run = await start(queue, page())
    await claim_one(queue, run, DEAD, lease=MINUTE)
    await clock.forward(MINUTE)
    assert await queue.reclaim() == 1
    assert await queue.abandon(DEAD) == 0
    assert (await claim_one(queue, run, ALIVE)).attempt == 2


async def test_a_task_that_outlived_its_time_in_a_dead_workers_hands_expires(
    queue: Queue, clock: Clock
) -> None:
    run = await start(queue, page(ttl=MINUTE))
    await claim_one(queue, run, DEAD, lease=HOUR)
    await clock.forward(MINUTE)
    assert await queue.abandon(DEAD) == 1
    assert not await claim(queue, run, ALIVE)
    stats = await queue.stats(run.id)
    assert (stats.expired, stats.remaining) == (1, 0)


async def test_a_worker_that_holds_nothing_or_never_was_has_nothing_to_hand_back(queue: Queue) -> None:
    assert await queue.abandon("nobody") == 0
    run, lease = await start_one(queue)
    await queue.beat("idle-1", run_id=run.id)
    assert [await queue.abandon(worker) for worker in ("idle-1", "nobody", "")] == [0, 0, 0]
    assert await queue.settle([Done(lease)]) == [Fate.ACCEPTED]


async def test_abandoning_twice_hands_back_once(queue: Queue) -> None:
    run = await start(queue, *pages(3))
    await claim_all(queue, run, DEAD)
    assert [await queue.abandon(DEAD) for _ in range(3)] == [3, 0, 0]
    await claim_all(queue, run, ALIVE)
    assert await queue.abandon(DEAD) == 0
    assert (await queue.stats(run.id)).leased == 3


async def test_what_was_settled_stays_settled(queue: Queue) -> None:
    run = await start(queue, *pages(4))
    done, buried, *_ = await claim_all(queue, run, DEAD)
    await queue.settle([Done(done, items=["a"]), Bury(buried, "gone")])
    assert await queue.abandon(DEAD) == 2
    stats = await queue.stats(run.id)
    assert (stats.completed, stats.dead, stats.pending, stats.leased, stats.items) == (1, 1, 2, 0, 1)


async def test_counts_stay_exact_for_steps_partitions_hosts_and_workers(queue: Queue) -> None:
    run = await start(queue, page(1, step="list", partition="ca"), page(2, "b.example", partition="ny"))
    before = await queue.stats(run.id)
    hosts = [status async for status in queue.hosts(run.id)]
    await queue.beat(DEAD, run_id=run.id)
    await claim_all(queue, run, DEAD)
    assert await queue.abandon(DEAD) == 2
    assert await queue.stats(run.id) == before
    assert [status async for status in queue.hosts(run.id)] == hosts
    (worker,) = await queue.workers(run.id)
    assert (worker.leased, worker.completed, worker.failed, worker.items) == (0, 0, 0, 0)


# At the same time


async def test_a_settle_at_the_same_time_wins_or_loses_each_lease_but_not_both(queue: Queue) -> None:
    run = await start(queue, *(page(n, f"h{n % 9}.example") for n in range(200)))
    leases = await claim_all(queue, run, DEAD)
    batches = [leases[n::8] for n in range(8)]
    settles = [queue.settle([Done(lease, items=[lease.task_id]) for lease in batch]) for batch in batches]
    *answers, abandoned = await asyncio.gather(*settles, queue.abandon(DEAD))
    fates = [fate for fates in answers for fate in fates]
    accepted = fates.count(Fate.ACCEPTED)
    assert accepted + abandoned == 200
    stats = await queue.stats(run.id)
    assert (stats.completed, stats.pending, stats.leased, stats.items) == (accepted, abandoned, 0, accepted)
    again = await claim_all(queue, run, ALIVE)
    assert len(again) == abandoned
    assert not {lease.task_id for lease in again} & set(await data_of(queue, run))


async def test_a_reclaim_at_the_same_time_takes_each_lease_or_leaves_it(queue: Queue, clock: Clock) -> None:
    run = await start(queue, *(page(n, f"h{n % 9}.example") for n in range(100)))
    assert len(await claim_all(queue, run, DEAD, lease=MINUTE)) == 100
    await clock.forward(MINUTE)
    abandoned, taken, more = await asyncio.gather(queue.abandon(DEAD), queue.reclaim(), queue.abandon(DEAD))
    assert abandoned + taken + more == 100
    attempts = [lease.attempt for lease in await claim_all(queue, run, ALIVE)]
    assert (attempts.count(1), attempts.count(2)) == (abandoned + more, taken)


async def test_claims_at_the_same_time_get_an_abandoned_task_once(queue: Queue) -> None:
    run = await start(queue, *(page(n, f"h{n % 9}.example") for n in range(200)), per_host=30)
    assert len(await claim_all(queue, run, DEAD)) == 200
    claims = [claim_all(queue, run, f"alive-{n}", limit=7) for n in range(6)]
    abandoned, *grants = await asyncio.gather(queue.abandon(DEAD), *claims)
    assert abandoned == 200
    grants.append(await claim_all(queue, run, ALIVE))
    ids = [lease.task_id for leases in grants for lease in leases]
    assert len(ids) == len(set(ids)) == 200


async def test_an_extend_at_the_same_time_saves_no_lease(queue: Queue) -> None:
    run = await start(queue, *(page(n, f"h{n % 9}.example") for n in range(100)))
    leases = await claim_all(queue, run, DEAD)
    extends = [queue.extend(leases, lease=HOUR) for _ in range(4)]
    abandoned, *_ = await asyncio.gather(queue.abandon(DEAD), *extends)
    assert abandoned == 100
    assert await queue.extend(leases) == [Fate.STALE] * 100


async def test_abandoned_tasks_of_steps_at_most_once_are_buried_with_the_reason_and_the_others_go_back(
    queue: Queue,
) -> None:
    steps = {"order": ("buy", "pay"), "look": ("list",)}
    tasks = [page(f"{step}{n}", step=step) for names in steps.values() for step in names for n in range(3)]
    run = await start(queue, *tasks, max_attempts=3)
    other = await start(queue, page("other", step="buy"), run_id="other")
    leases = await claim_all(queue, run, DEAD)
    (elsewhere,) = await claim_all(queue, other, DEAD)
    (alive,) = await claim_all(queue, await start(queue, page("mine", step="buy")), ALIVE)
    assert len(leases) == 9
    assert await queue.abandon(DEAD, once=steps["order"], reason="WorkerDied: it was killed") == 10
    stats = await queue.stats(run.id)
    assert (stats.pending, stats.leased, stats.dead) == (3, 0, 6)
    letters = [*await the_dead(queue, run), *await the_dead(queue, other)]
    assert {letter.error for letter in letters} == {"WorkerDied: it was killed"}
    assert {letter.task.step for letter in letters} == set(steps["order"])
    assert {letter.attempts for letter in letters} == {1}
    assert {letter.history[-1].worker_id for letter in letters} == {DEAD}
    assert {lease.task.step for lease in await claim_all(queue, run, ALIVE)} == set(steps["look"])
    assert set(await queue.settle([Done(lease) for lease in [*leases, elsewhere]])) == {Fate.STALE}
    assert await queue.settle([Done(alive)]) == [Fate.ACCEPTED], "that of another worker stays"
    assert await queue.replay(run.id) == 6
