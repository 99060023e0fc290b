"""Concurrent calls: whichever commits last, no host queue with a task is left without a due time."""

import asyncio
from contextlib import asynccontextmanager

import asyncpg
import pytest

from shoal.core.model import ZERO, Done
from tests.conformance.helpers import HOST, HOUR, claim, claim_one, page, paths, start
from tests.integration.postgres.locks import someone_waits

STILL_IN_LINE = """
    SELECT name FROM shoal.host_queue l JOIN shoal.host h ON h.id = l.host
    WHERE due_at < clock_timestamp() - interval '30 seconds' LIMIT 1
"""


async def until(direct, condition):
    """Wait until the host queues are in this state; a write could hide the race."""
    async with asyncio.timeout(5):
        while not await direct.fetchval(f"SELECT bool_and({condition}) FROM shoal.host_queue"):
            await asyncio.sleep(0.005)


async def test_an_enqueue_that_commits_late_keeps_its_host_queue_from_being_closed(
    queue, direct, uncommitted
):
    run = await start(queue, page(1))
    async with uncommitted() as late:
        async with uncommitted() as emptying:
            assert await claim(emptying, run)
            await late.enqueue(run.id, [page(2)])
        for _ in range(2):
            await until(direct, "due_at <= clock_timestamp()")
            assert not await claim(queue, run)
    await until(direct, "due_at <= clock_timestamp()")
    assert paths(await claim(queue, run)) == [f"{HOST}/2"]


async def test_a_settlement_with_follow_ups_that_commits_late_keeps_its_host_queue_open(
    queue, direct, uncommitted
):
    run = await start(queue, page(1, priority=1), page(2))
    first = await claim_one(queue, run)
    async with uncommitted() as late:
        async with uncommitted() as emptying:
            assert await claim(emptying, run)
            await late.settle([Done(first, follow=[page(3)])])
        for _ in range(2):
            await until(direct, "due_at <= clock_timestamp()")
            assert not await claim(queue, run)
    await until(direct, "due_at <= clock_timestamp()")
    assert paths(await claim(queue, run)) == [f"{HOST}/3"]


async def test_a_host_queue_that_stays_empty_is_closed_and_opened_again_by_the_next_task(queue, direct):
    run = await start(queue, page(1))
    await queue.settle([Done(lease) for lease in await claim(queue, run)])
    for _ in range(2):
        await until(direct, "due_at <= clock_timestamp()")
        assert not await claim(queue, run)
    await until(direct, "due_at IS NULL")
    await queue.enqueue(run.id, [page(2)])
    assert paths(await claim(queue, run)) == [f"{HOST}/2"]


@pytest.mark.parametrize("gate", ["pause_host", "slow_host"])
async def test_a_gate_that_opens_while_a_more_urgent_task_comes_in_lets_both_through(
    queue, uncommitted, gate
):
    run = await start(queue, page(1), page(2))
    await claim_one(queue, run)
    shut = getattr(queue, gate)
    await shut(HOST, HOUR)
    assert not await claim(queue, run)
    async with uncommitted() as late:
        await late.enqueue(run.id, [page(3, priority=9)])
        await shut(HOST, ZERO)
    granted = [lease for _ in range(2) for lease in await claim(queue, run, limit=1)]
    assert len(granted) == 2
    assert paths(granted)[0] == f"{HOST}/3"


async def test_an_urgent_task_in_a_host_queue_that_has_long_waited_its_turn_is_handed_out_first(
    queue, direct
):
    run = await start(queue, page(0, priority=9), *(page(1, f"h{n}.example") for n in range(30)))
    await direct.execute("UPDATE shoal.host_queue SET due_at = due_at - interval '1 minute'")
    assert paths(await claim(queue, run, limit=1)) == [f"{HOST}/0"]
    await claim_one(queue, run)  # finds that nothing of a higher priority is left
    waiting = await direct.fetchval(STILL_IN_LINE)
    await queue.enqueue(run.id, [page(2, waiting, priority=9)])
    assert paths(await claim(queue, run, limit=1)) == [f"{waiting}/2"]


async def test_a_claim_that_meets_a_purge_leaves_no_lease_that_troubles_others(queue, direct, uncommitted):
    run, other = await start(queue, page(1)), await start(queue, page(1), per_host=1)
    async with uncommitted() as late:
        assert await claim(late, run)
        purging = asyncio.create_task(queue.purge(run.id))
        await waits_for_a_lock(direct)
    await purging
    await direct.execute("UPDATE shoal.lease SET deadline = clock_timestamp()")
    assert await queue.reclaim() == 0
    assert len(await claim(queue, other)) == 1


async def test_an_enqueue_that_meets_a_purge_leaves_no_key_behind(queue, direct, uncommitted):
    run = await start(queue)
    async with uncommitted() as late:
        await late.enqueue(run.id, [page(1)])
        purging = asyncio.create_task(queue.purge(run.id))
        await asyncio.wait([purging], timeout=0.2)
    await purging
    again = await start(queue, run_id=run.id)
    assert (await queue.enqueue(again.id, [page(1)])).added == 1


async def waits_for_a_lock(direct):
    async with asyncio.timeout(5):
        while not await direct.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"):
            await asyncio.sleep(0.005)


@asynccontextmanager
async def held(postgres_url, host):
    """Hold the lock on a host's host queue."""
    connection = await asyncpg.connect(postgres_url)
    try:
        async with connection.transaction():
            await connection.execute(
                "SELECT FROM shoal.host_queue"
                " WHERE host = (SELECT id FROM shoal.host WHERE name = $1) FOR UPDATE",
                host,
            )
            yield
    finally:
        await connection.close()


async def test_an_enqueue_writes_no_host_queue_that_it_has_not_locked_in_order(
    queue, direct, uncommitted, postgres_url
):
    run = await start(queue, page(1, "a.example"))
    assert await claim(queue, run)  # which marks the host queue as empty: the next enqueue writes it
    await queue.enqueue(run.id, [page(1, "b.example")])
    async with held(postgres_url, "a.example"):
        enqueuing = asyncio.create_task(
            queue.enqueue(run.id, [page(2, host) for host in ("a.example", "b.example")])
        )
        await someone_waits(direct)
        async with uncommitted() as emptying:
            assert paths(await claim(emptying, run)) == ["b.example/1"]
        waiting = held(postgres_url, "b.example")
        await waiting.__aenter__()
    # Two calls that wait for host queues which the other has locked out of order would wait for each other.
    async with asyncio.timeout(5):
        await enqueuing
    await waiting.__aexit__(None, None, None)
    found = set()
    async with asyncio.timeout(5):
        while found != {"a.example/2", "b.example/2"}:
            found |= set(paths(await claim(queue, run)))
