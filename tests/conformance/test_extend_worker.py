"""Every live lease of a worker can be extended by a caller that does not know them."""

from datetime import timedelta

import pytest

from shoal.core.errors import InvalidSetting
from shoal.core.model import MINUTE, ZERO, Done, Fate
from shoal.queue.contract import Queue
from tests.conformance.backends import Clock, by_contract
from tests.conformance.helpers import HOUR, TEN, claim_all, claim_one, page, pages, start, start_one

SILENT, OTHER = "silent-1", "other-1"


async def test_every_lease_of_the_worker_is_extended_in_all_runs(queue: Queue, clock: Clock) -> None:
    hosts = [page(number, f"{number}.example") for number in range(12)]
    first, second = await start(queue, *hosts, max_attempts=1), await start(queue, *pages(2), max_attempts=1)
    leases = [lease for run in (first, second) for lease in await claim_all(queue, run, SILENT, lease=MINUTE)]
    await clock.forward(MINUTE - TEN)
    assert await queue.extend_worker(SILENT, lease=MINUTE) == 14
    await clock.forward(MINUTE - TEN)
    assert await queue.reclaim() == 0
    assert set(await queue.settle([Done(lease) for lease in leases])) == {Fate.ACCEPTED}
    assert [(await queue.stats(run.id)).completed for run in (first, second)] == [12, 2]


async def test_the_new_deadline_counts_from_now(queue: Queue, clock: Clock) -> None:
    run, _ = await start_one(queue, lease=HOUR)
    assert await queue.extend_worker("worker-1", lease=MINUTE) == 1
    await clock.forward(MINUTE)
    assert await queue.reclaim() == 1
    assert (await queue.stats(run.id)).pending == 1


async def test_the_leases_of_another_worker_are_untouched(queue: Queue, clock: Clock) -> None:
    run = await start(queue, *pages(2))
    await claim_one(queue, run, OTHER, lease=MINUTE)
    mine = await claim_one(queue, run, SILENT, lease=MINUTE)
    assert await queue.extend_worker(SILENT, lease=HOUR) == 1
    await clock.forward(MINUTE)
    assert await queue.reclaim() == 1
    assert await queue.settle([Done(mine)]) == [Fate.ACCEPTED]


async def test_a_lease_whose_deadline_has_passed_is_not_revived(queue: Queue, clock: Clock) -> None:
    run, lost = await start_one(queue, lease=MINUTE)
    await clock.forward(MINUTE)
    assert await queue.extend_worker("worker-1", lease=HOUR) == 0
    assert await queue.reclaim() == 1
    again = await claim_one(queue, run, OTHER, lease=MINUTE)
    assert (again.task_id, again.attempt) == (lost.task_id, 2)
    assert await queue.extend_worker("worker-1", lease=HOUR) == 0
    await clock.forward(MINUTE)
    assert await queue.reclaim() == 1


async def test_a_settled_lease_is_not_counted(queue: Queue) -> None:
    run = await start(queue, *pages(3))
    leases = await claim_all(queue, run, SILENT)
    await queue.settle([Done(leases[0])])
    assert await queue.extend_worker(SILENT) == 2
    await queue.abandon(SILENT)
    assert await queue.extend_worker(SILENT) == 0


async def test_leases_of_a_run_that_was_paused_or_cancelled_meanwhile_are_extended(
    queue: Queue, clock: Clock
) -> None:
    leases = []
    for steer in (queue.pause, queue.cancel):
        run, lease = await start_one(queue, lease=MINUTE)
        await steer(run.id)
        leases.append(lease)
    assert await queue.extend_worker("worker-1", lease=HOUR) == 2
    await clock.forward(MINUTE)
    assert await queue.reclaim() == 0
    assert await queue.settle([Done(lease) for lease in leases]) == [Fate.ACCEPTED] * 2


async def test_an_extended_lease_keeps_its_task_and_its_token(queue: Queue) -> None:
    run, lease = await start_one(queue, page(payload={"n": 1}, partition="ca", priority=5))
    await queue.extend_worker("worker-1", lease=HOUR)
    await queue.abandon("worker-1")
    again = await claim_one(queue, run, OTHER)
    assert (again.task, again.attempt) == (lease.task, lease.attempt)


async def test_unknown_workers_and_purged_runs_have_no_lease_to_extend(queue: Queue) -> None:
    run, _ = await start_one(queue)
    assert await queue.extend_worker("nobody") == 0
    await queue.purge(run.id)
    assert await queue.extend_worker("worker-1") == 0


@by_contract
async def test_a_lease_must_last(queue: Queue) -> None:
    for lease in (ZERO, timedelta(seconds=-1)):
        with pytest.raises(InvalidSetting):
            await queue.extend_worker("worker-1", lease=lease)
