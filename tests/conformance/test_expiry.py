"""An expired task is counted and listed, and never claimed."""

from shoal.core.model import DOWNLOAD_KEY, MINUTE, Bury, Done, Fate, Retry
from shoal.queue.contract import Queue
from tests.conformance.backends import Clock
from tests.conformance.helpers import (
    HOST,
    HOUR,
    ME,
    TEN,
    claim,
    claim_all,
    every,
    page,
    paths,
    start,
    start_one,
    url,
)


async def test_promise_9_an_expired_task_is_counted_and_listed_and_never_handed_out(
    queue: Queue, clock: Clock
) -> None:
    run = await start(queue, page(1, ttl=MINUTE, payload={"n": 1}, step="detail"), page(2))
    await clock.forward(MINUTE)
    assert paths(await claim_all(queue, run)) == [f"{HOST}/2"]
    stats = await queue.stats(run.id)
    assert (stats.expired, stats.tasks) == (1, 2)
    (expired,) = await every(queue.expired(run.id))
    assert (expired.task.url, expired.task.payload, expired.task.step) == (url(1), {"n": 1}, "detail")
    assert abs(expired.expired_at - clock.now()) <= MINUTE


async def test_reclaim_expires_tasks_of_all_runs(queue: Queue, clock: Clock) -> None:
    runs = [await start(queue, page(), ttl=MINUTE) for _ in range(2)]
    await clock.forward(MINUTE)
    assert await queue.reclaim() == 0
    assert [(await queue.stats(run.id)).expired for run in runs] == [1, 1]


async def test_a_task_lives_until_its_time_is_over(queue: Queue, clock: Clock) -> None:
    run = await start(queue, page(ttl=MINUTE))
    await clock.forward(5 * TEN)
    await queue.reclaim()
    assert len(await claim(queue, run)) == 1


async def test_the_smaller_time_to_live_of_run_and_task_wins(queue: Queue, clock: Clock) -> None:
    run = await start(queue, page(1, ttl=TEN), page(2, ttl=HOUR), page(3), ttl=MINUTE)
    patient = await start(queue, page(4, ttl=HOUR), page(5))
    expired = []
    for wait in (TEN, 5 * TEN, HOUR):
        await clock.forward(wait)
        await queue.reclaim()
        expired.append([(await queue.stats(one.id)).expired for one in (run, patient)])
    assert expired == [[1, 0], [3, 0], [3, 1]]
    assert paths(await claim_all(queue, patient)) == [f"{HOST}/5"]


async def test_a_download_of_a_page_that_was_read_in_time_does_not_expire(queue: Queue, clock: Clock) -> None:
    """Its item would be lost, and the page that asked for it is completed."""
    run = await start(queue, page(1), ttl=MINUTE)
    (lease,) = await claim(queue, run)
    await queue.settle([Done(lease, follow=[page(2, payload={DOWNLOAD_KEY: {}})])])
    await clock.forward(HOUR)
    assert paths(await claim_all(queue, run)) == [f"{HOST}/2"]
    assert (await queue.stats(run.id)).expired == 0


async def test_a_delayed_task_expires_too(queue: Queue, clock: Clock) -> None:
    run = await start(queue, page(1, delay=HOUR, ttl=MINUTE), page(2, delay=MINUTE, ttl=MINUTE))
    await clock.forward(MINUTE)
    assert not await claim(queue, run)
    stats = await queue.stats(run.id)
    assert (stats.expired, stats.remaining) == (2, 0)


async def test_a_held_task_does_not_expire_in_its_workers_hands(queue: Queue, clock: Clock) -> None:
    run, lease = await start_one(queue, page(ttl=MINUTE), lease=HOUR)
    await clock.forward(2 * MINUTE)
    await queue.reclaim()
    assert (await queue.stats(run.id)).leased == 1
    assert await queue.settle([Done(lease)]) == [Fate.ACCEPTED]
    assert (await queue.stats(run.id)).completed == 1


async def test_a_task_that_is_retried_too_late_expires(queue: Queue, clock: Clock) -> None:
    run, lease = await start_one(queue, page(ttl=MINUTE), lease=HOUR)
    await clock.forward(MINUTE)
    await queue.settle([Retry(lease, "again")])
    grant = await queue.claim(ME, run_id=run.id)
    assert (list(grant.leases), grant.drained) == ([], True)
    assert (await queue.stats(run.id)).expired == 1


async def test_a_lost_lease_of_an_overdue_task_expires_in_one_reclaim(queue: Queue, clock: Clock) -> None:
    run, _ = await start_one(queue, page(ttl=MINUTE), lease=MINUTE)
    await clock.forward(MINUTE)
    assert await queue.reclaim() == 1
    assert (await queue.stats(run.id)).expired == 1


async def test_a_lost_lease_without_an_attempt_left_dies_rather_than_expires(
    queue: Queue, clock: Clock
) -> None:
    run, _ = await start_one(queue, page(ttl=MINUTE), lease=MINUTE, max_attempts=1)
    await clock.forward(MINUTE)
    await queue.reclaim()
    stats = await queue.stats(run.id)
    assert (stats.dead, stats.expired) == (1, 0)


async def test_dead_and_completed_tasks_do_not_expire(queue: Queue, clock: Clock) -> None:
    run = await start(queue, page(1), page(2), ttl=MINUTE)
    first, second = await claim_all(queue, run)
    await queue.settle([Done(first), Bury(second, "gone")])
    await clock.forward(HOUR)
    await queue.reclaim()
    stats = await queue.stats(run.id)
    assert (stats.completed, stats.dead, stats.expired) == (1, 1, 0)


async def test_the_time_to_live_of_a_follow_up_counts_from_the_settling(queue: Queue, clock: Clock) -> None:
    run, lease = await start_one(queue, ttl=MINUTE, lease=HOUR)
    await clock.forward(5 * TEN)
    await queue.settle([Done(lease, follow=[page(2), page(3, ttl=TEN)])])
    await clock.forward(TEN)
    assert paths(await claim_all(queue, run)) == [f"{HOST}/2"]
    assert (await queue.stats(run.id)).expired == 1


async def test_of_many_tasks_that_expire_at_one_moment_none_is_handed_out(queue: Queue, clock: Clock) -> None:
    # More than any backend expires in one claim.
    run = await start(queue, *(page(n, f"h{n % 11}.example") for n in range(1_300)), ttl=MINUTE)
    await clock.forward(MINUTE)
    assert [paths(await claim(queue, run)) for _ in range(4)] == [[]] * 4
    while not (await queue.claim(ME, run_id=run.id)).drained:
        await queue.reclaim()
    assert (await queue.stats(run.id)).expired == 1_300
    assert len({expired.id for expired in await every(queue.expired(run.id))}) == 1_300


async def test_a_run_whose_last_tasks_expired_on_paused_hosts_is_drained(queue: Queue, clock: Clock) -> None:
    hosts = [f"h{number}.example" for number in range(8)]
    run = await start(queue, *(page(1, host) for host in hosts))
    leases = await claim_all(queue, run)
    follow = [page(2, host, ttl=MINUTE) for host in hosts]
    await queue.settle([Done(lease, follow=follow) for lease in leases[1:]])
    for host in hosts:
        await queue.pause_host(host, HOUR)
    assert not await claim_all(queue, run)
    await clock.forward(2 * MINUTE)
    await queue.reclaim()
    await queue.settle([Done(leases[0], follow=follow)])
    assert (await queue.claim(ME, run_id=run.id)).drained
