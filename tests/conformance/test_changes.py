"""The rate limits and attempts of a run can be changed while it runs; claims and settlements obey at once."""

import pytest

from shoal.core.errors import InvalidSetting, UnknownRun
from shoal.core.model import MINUTE, SECOND, ZERO, Done, Retry, RunSettings
from shoal.queue.contract import Queue
from tests.conformance.backends import Clock, by_contract
from tests.conformance.helpers import HOUR, TEN, claim, claim_one, page, pages, start


async def test_a_change_is_stored_and_leaves_the_rest(queue: Queue) -> None:
    settings = RunSettings(
        host_delay=TEN, per_host=3, max_attempts=5, ttl=HOUR, dedup=HOUR, dedup_steps=("a",)
    )
    run = await queue.start_run("books", settings=settings)
    changed = await queue.change_run(run.id, host_delay=SECOND)
    assert changed.settings == RunSettings(
        host_delay=SECOND, per_host=3, max_attempts=5, ttl=HOUR, dedup=HOUR, dedup_steps=("a",)
    )
    assert (changed.id, changed.state, changed.started_at) == (run.id, run.state, run.started_at)
    assert await queue.run(run.id) == changed
    changed = await queue.change_run(run.id, per_host=7, max_attempts=1)
    assert (changed.settings.host_delay, changed.settings.per_host) == (SECOND, 7)
    assert (await queue.run(run.id)).settings.max_attempts == 1


async def test_a_run_that_gets_faster_does_not_wait_for_its_old_delay(queue: Queue, clock: Clock) -> None:
    hosts = [f"h{number}.example" for number in range(3)]
    run = await start(queue, *(page(n, host) for host in hosts for n in range(5)), host_delay=HOUR)
    assert len(await claim(queue, run)) == 3
    assert await claim(queue, run) == []
    await queue.change_run(run.id, host_delay=TEN)
    await clock.forward(TEN)
    assert len(await claim(queue, run)) == 3
    await queue.change_run(run.id, host_delay=ZERO)
    assert len(await claim(queue, run)) == 9


async def test_a_run_that_gets_slower_keeps_the_new_delay_from_its_last_start_on(
    queue: Queue, clock: Clock
) -> None:
    run = await start(queue, *pages(5), host_delay=TEN)
    await claim_one(queue, run)
    await queue.change_run(run.id, host_delay=HOUR)
    await clock.forward(MINUTE)
    assert await claim(queue, run) == []
    await clock.forward(HOUR)
    assert len(await claim(queue, run)) == 1


async def test_another_run_still_keeps_its_own_delay(queue: Queue, clock: Clock) -> None:
    slow = await start(queue, page("slow"), host_delay=HOUR)
    fast = await start(queue, page("fast"), host_delay=MINUTE)
    await claim_one(queue, slow)
    await queue.change_run(fast.id, host_delay=ZERO)
    await clock.forward(MINUTE)
    assert await claim(queue, fast) == []


async def test_another_run_need_not_wait_for_a_delay_that_is_over(queue: Queue, clock: Clock) -> None:
    changed = await start(queue, page("one"), host_delay=HOUR)
    other = await start(queue, page("two"), host_delay=ZERO, per_host=2)
    await claim_one(queue, changed)
    assert await claim(queue, other) == []
    await queue.change_run(changed.id, host_delay=MINUTE)
    await clock.forward(MINUTE)
    assert len(await claim(queue, other)) == 1


async def test_more_leases_of_a_host_are_handed_out_once_the_run_allows_them(queue: Queue) -> None:
    run = await start(queue, *pages(6), per_host=1)
    first = await claim_one(queue, run)
    assert await claim(queue, run) == []
    await queue.change_run(run.id, per_host=4)
    assert len(await claim(queue, run)) == 3
    await queue.change_run(run.id, per_host=1)
    await queue.settle([Done(first)])
    assert await claim(queue, run) == []


async def test_a_retry_without_an_attempt_left_under_the_new_limit_is_buried(queue: Queue) -> None:
    run = await start(queue, *pages(2), max_attempts=5)
    one = await claim_one(queue, run)
    await queue.change_run(run.id, max_attempts=1)
    await queue.settle([Retry(one, "no")])
    assert (await queue.stats(run.id)).dead == 1


@by_contract
async def test_what_cannot_be_is_refused_and_changes_nothing(queue: Queue) -> None:
    run = await start(queue)
    for wrong in ({"host_delay": -SECOND}, {"per_host": 0}, {"max_attempts": 0}):
        with pytest.raises(InvalidSetting):
            await queue.change_run(run.id, **wrong)
    assert await queue.run(run.id) == run
    with pytest.raises(UnknownRun, match="nosuch"):
        await queue.change_run("nosuch", per_host=2)
