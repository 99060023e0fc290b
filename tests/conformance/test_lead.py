"""A claim with a lead hands out starts that have not passed when its reply arrives; each gap is kept."""

from datetime import timedelta

import pytest

from shoal.core.errors import InvalidSetting
from shoal.core.model import MINUTE, SECOND, ZERO, Grant, Run, Task
from shoal.core.pacing import MAX_LEAD
from shoal.queue.contract import Queue
from tests.conformance.backends import Clock, by_contract
from tests.conformance.helpers import HOST, ME, TEN, claim, page, pages, start

GAP = timedelta(milliseconds=200)
LEAD = MAX_LEAD
TOLERANCE = timedelta(milliseconds=1)  # for stores that count in milliseconds or floats


async def claim_ahead(queue: Queue, run: Run, lead: timedelta = LEAD, limit: int = 50) -> Grant:
    return await queue.claim(ME, run_id=run.id, limit=limit, lease=MINUTE, lead=lead)


async def test_no_start_comes_sooner_than_the_lead_and_the_gap_is_kept_between_them(queue: Queue) -> None:
    run = await start(queue, *pages(4), host_delay=GAP)
    grant = await claim_ahead(queue, run)
    starts = sorted(lease.start_in for lease in grant.leases)
    assert len(starts) == 4
    assert all(abs(one - LEAD - number * GAP) <= 2 * TOLERANCE for number, one in enumerate(starts))
    assert all(abs(one.deadline_in - one.start_in - MINUTE) <= TOLERANCE for one in grant.leases)


async def test_a_claim_without_a_lead_comes_after_the_starts_of_one_with_a_lead(
    queue: Queue, clock: Clock
) -> None:
    run = await start(queue, *pages(2), host_delay=TEN)
    assert len((await claim_ahead(queue, run)).leases) == 1
    await clock.forward(TEN)
    assert not await claim(queue, run)
    await clock.forward(LEAD)
    (lease,) = await claim(queue, run)
    assert lease.start_in < SECOND


async def test_a_host_is_claimed_by_the_lead_before_it_is_free_so_that_no_time_is_lost(
    queue: Queue, clock: Clock
) -> None:
    run = await start(queue, *pages(2), host_delay=TEN)
    assert len(await claim(queue, run)) == 1
    grant = await claim_ahead(queue, run)
    assert not grant.leases
    # Real clocks run on.
    assert grant.next_due is not None and TEN - LEAD - SECOND < grant.next_due <= TEN - LEAD
    await clock.forward(TEN - LEAD)
    (lease,) = (await claim_ahead(queue, run)).leases
    assert abs(lease.start_in - LEAD) <= TOLERANCE


async def test_a_paused_host_starts_when_its_pause_ends_and_not_before(queue: Queue, clock: Clock) -> None:
    run = await start(queue, *pages(1))
    await queue.pause_host(HOST, TEN)
    await clock.forward(TEN - LEAD)
    (lease,) = (await claim_ahead(queue, run)).leases
    assert abs(lease.start_in - LEAD) <= TOLERANCE


async def test_a_task_without_a_host_starts_at_once(queue: Queue) -> None:
    run = await start(queue, Task(key="a", payload={"a": 1}), host_delay=GAP)
    (lease,) = (await claim_ahead(queue, run)).leases
    assert lease.start_in == ZERO
    assert abs(lease.deadline_in - MINUTE) <= LEAD


async def test_a_delayed_task_is_not_claimed_before_it_is_due(queue: Queue, clock: Clock) -> None:
    run = await start(queue, Task(url=f"https://{HOST}/1", delay=TEN), host_delay=GAP)
    await clock.forward(TEN - LEAD / 2)
    grant = await claim_ahead(queue, run)
    assert not grant.leases
    assert grant.next_due is not None and ZERO < grant.next_due <= LEAD / 2
    await clock.forward(LEAD / 2)
    assert len((await claim_ahead(queue, run)).leases) == 1


async def test_a_lease_is_not_lost_before_its_deadline(queue: Queue, clock: Clock) -> None:
    run = await start(queue, page(1), host_delay=GAP)
    await claim_ahead(queue, run)
    await clock.forward(MINUTE + LEAD / 2)
    assert not (await claim_ahead(queue, run)).leases


@by_contract
async def test_a_lead_that_makes_no_sense_is_refused(queue: Queue) -> None:
    run = await start(queue, page(1))
    for lead in (-SECOND, MAX_LEAD + SECOND):
        with pytest.raises(InvalidSetting, match="lead must be zero to 2 s"):
            await claim_ahead(queue, run, lead)
