"""A fenced claim and the writer of its note wait for each other; expired notes do not accumulate."""

import asyncio

from tests.conformance.helpers import HOUR, ME, pages, start
from tests.integration.postgres.locks import someone_waits

TOPIC, KEY = "plans", "books"

# A check of the note without a lock.
LOOKS_ONLY = """
    CREATE OR REPLACE FUNCTION shoal.note_stands(p_topic text, p_place bytea, p_stamp bigint) RETURNS boolean
    LANGUAGE sql AS
    $$ SELECT EXISTS (SELECT FROM shoal.note WHERE topic = p_topic AND place = p_place AND stamp = p_stamp) $$
"""


async def planned(queue):
    note = await queue.swap_note(TOPIC, KEY, b"plan", stamp=None)
    return TOPIC, KEY, note.stamp


async def test_a_new_plan_waits_for_the_claims_by_the_old_one(queue, direct, uncommitted):
    run, old = await start(queue, *pages(5)), await planned(queue)
    async with uncommitted() as worker:
        assert len((await worker.claim(ME, run_id=run.id, limit=2, fence=old)).leases) == 2
        planning = asyncio.create_task(queue.swap_note(TOPIC, KEY, b"new", stamp=old[2]))
        await someone_waits(direct)
        assert (await queue.notes(TOPIC))[KEY].value == b"plan"
    assert await planning
    assert (await queue.claim(ME, run_id=run.id, fence=old)).outdated
    assert (await queue.stats(run.id)).leased == 2


async def test_without_the_lock_a_claim_by_the_old_plan_ends_after_the_new_one_was_read(
    queue, direct, uncommitted
):
    run, old = await start(queue, *pages(5)), await planned(queue)
    await direct.execute(LOOKS_ONLY)
    async with uncommitted() as worker:
        assert len((await worker.claim(ME, run_id=run.id, limit=2, fence=old)).leases) == 2
        assert await queue.swap_note(TOPIC, KEY, b"new", stamp=old[2])
        assert (await queue.stats(run.id)).leased == 0
    assert (await queue.stats(run.id)).leased == 2


async def test_a_claim_waits_for_a_plan_that_is_being_made(queue, direct, uncommitted):
    run, old = await start(queue, *pages(5)), await planned(queue)
    async with uncommitted() as planner:
        assert await planner.swap_note(TOPIC, KEY, b"new", stamp=old[2])
        claiming = asyncio.create_task(queue.claim(ME, run_id=run.id, fence=old))
        await someone_waits(direct)
    assert (await claiming).outdated


async def test_a_plan_that_waits_is_not_overtaken_by_claims_that_come_later(queue, direct, uncommitted):
    run, old = await start(queue, *pages(5)), await planned(queue)
    async with uncommitted() as worker:
        await worker.claim(ME, run_id=run.id, limit=2, fence=old)
        planning = asyncio.create_task(queue.swap_note(TOPIC, KEY, b"new", stamp=old[2]))
        await someone_waits(direct)
        claiming = asyncio.create_task(queue.claim("later", run_id=run.id, fence=old))
        await someone_waits(direct, how_many=2)
    assert await planning
    assert (await claiming).outdated


async def test_other_topics_and_claims_without_a_fence_wait_for_nobody(queue, uncommitted):
    run, _ = await start(queue, *pages(5)), await planned(queue)
    async with uncommitted() as planner, asyncio.timeout(10):
        await planner.write_notes(TOPIC, {KEY: b"new"})
        await queue.write_notes("cache", {KEY: b"page"})
        assert len((await queue.claim(ME, run_id=run.id)).leases) == 5


async def test_expired_notes_go_some_at_a_time_with_later_writes_and_reclaims(queue, direct):
    async def kept():
        return await direct.fetchval("SELECT count(*) FROM shoal.note")

    await queue.write_notes("cache", {str(n): b"x" for n in range(250)}, ttl=HOUR)
    await direct.execute("UPDATE shoal.note SET expires_at = clock_timestamp()")
    assert await queue.notes("cache") == {}
    await queue.write_notes("other", {"a": b"1"})
    assert await kept() == 151
    await queue.reclaim()
    assert await kept() == 1
