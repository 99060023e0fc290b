"""A claim that is fenced by a note leases nothing once the note has changed."""

import asyncio

import pytest

from shoal.core.errors import InvalidNote
from shoal.core.model import MINUTE, Done, Fate, Grant
from shoal.queue.contract import Fence, Queue
from tests.conformance.backends import Clock, by_contract
from tests.conformance.helpers import ME, claim_all, page, pages, start

TOPIC, KEY = "plans", "books"


async def planned(queue: Queue, value: bytes = b"plan", stamp: int | None = None) -> Fence:
    """Write a plan, and return the fence for claims made by it."""
    note = await queue.swap_note(TOPIC, KEY, value, stamp=stamp)
    assert note
    return TOPIC, KEY, note.stamp


async def test_a_claim_by_the_plan_of_now_is_like_any_other(queue: Queue) -> None:
    run = await start(queue, *pages(3))
    fence = await planned(queue)
    grant = await queue.claim(ME, run_id=run.id, fence=fence)
    assert (len(grant.leases), grant.outdated) == (3, False)
    assert set(await queue.settle([Done(lease) for lease in grant.leases])) == {Fate.ACCEPTED}
    assert (await queue.claim(ME, run_id=run.id, fence=fence)).drained


async def test_a_claim_by_an_old_plan_is_outdated_and_takes_nothing(queue: Queue) -> None:
    run = await start(queue, *pages(3), max_attempts=1)
    old = await planned(queue)
    new = await planned(queue, stamp=old[2])  # with the same words
    assert await queue.claim(ME, run_id=run.id, fence=old) == Grant(outdated=True)
    stats = await queue.stats(run.id)
    assert (stats.pending, stats.leased) == (3, 0)
    leases = await claim_all(queue, run, fence=new)
    assert [lease.attempt for lease in leases] == [1, 1, 1]


async def test_a_plan_that_was_removed_or_never_made_fences_everyone_out(queue: Queue) -> None:
    run = await start(queue, page())
    assert (await queue.claim(ME, run_id=run.id, fence=(TOPIC, KEY, 1))).outdated
    fence = await planned(queue)
    await queue.swap_note(TOPIC, KEY, None, stamp=fence[2])
    assert (await queue.claim(ME, run_id=run.id, fence=fence)).outdated
    assert (await queue.claim(ME, run_id=run.id, fence=(TOPIC, KEY, 0))).outdated


async def test_a_plan_that_expired_is_no_plan(queue: Queue, clock: Clock) -> None:
    run = await start(queue, page())
    note = await queue.swap_note(TOPIC, KEY, b"plan", stamp=None, ttl=MINUTE)
    assert note
    await clock.forward(MINUTE)
    assert (await queue.claim(ME, run_id=run.id, fence=(TOPIC, KEY, note.stamp))).outdated


async def test_other_notes_of_the_topic_do_not_matter(queue: Queue) -> None:
    run = await start(queue, page())
    fence = await planned(queue)
    await queue.write_notes(TOPIC, {"films": b"x", "papers": b"y"})
    assert len(await claim_all(queue, run, fence=fence)) == 1


async def test_what_was_claimed_by_an_old_plan_may_be_settled(queue: Queue) -> None:
    run = await start(queue, page())
    fence = await planned(queue)
    leases = await claim_all(queue, run, fence=fence)
    await planned(queue, b"other", stamp=fence[2])
    assert await queue.settle([Done(lease) for lease in leases]) == [Fate.ACCEPTED]


@by_contract
async def test_a_fence_that_can_be_no_note_is_refused(queue: Queue) -> None:
    run = await start(queue, page())
    for odd in [("", KEY, 1), (TOPIC, "a\0b", 1)]:
        with pytest.raises(InvalidNote):
            await queue.claim(ME, run_id=run.id, fence=odd)
    assert (await queue.stats(run.id)).pending == 1


async def test_no_claim_by_the_old_plan_succeeds_once_the_new_one_can_be_read(queue: Queue) -> None:
    run = await start(queue, *pages(200))
    old = await planned(queue)
    published = asyncio.Event()

    async def claim_until_outdated() -> list[bool]:
        """Return for each claim that got leases whether it began after the new plan was written."""
        late = []
        while True:
            began_late = published.is_set()
            grant = await queue.claim(ME, run_id=run.id, limit=5, fence=old)
            if grant.outdated:
                return late
            late += [began_late] * len(grant.leases)
            await asyncio.sleep(0)

    claiming = [asyncio.create_task(claim_until_outdated()) for _ in range(4)]
    await asyncio.sleep(0)
    new = await planned(queue, b"other", stamp=old[2])
    published.set()
    late = [found for told in await asyncio.gather(*claiming) for found in told]
    assert not any(late)
    assert len(await claim_all(queue, run, fence=new)) == 200 - len(late)
