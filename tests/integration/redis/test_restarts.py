"""A server that dies during a run: what it stored is neither lost nor processed twice."""

import asyncio

import pytest
from redis.asyncio import Redis

from shoal.core.model import MINUTE, SECOND, ZERO, Done, RunSettings, Task
from shoal.core.pacing import BURST_HORIZON
from shoal.queue.redis.queue import RedisQueue
from tests.conformance.helpers import HOUR, claim, page, start
from tests.conftest import or_skip
from tests.integration.programs import reports_of
from tests.integration.queues.web import page_url, reachable
from tests.servers.redis import RedisServer

PAGES = 6_000


@pytest.fixture
def server():
    """A server for one test with an append-only file, because the test kills it."""
    with or_skip(lambda: RedisServer(append=True)) as server:
        yield server


@pytest.mark.long
async def test_a_server_killed_in_the_middle_of_a_run_loses_no_task_and_doubles_no_item(server):
    # A killed process has passed its log to the system: only a crash of the machine costs the last second.
    async with await RedisQueue.open(server.url()) as queue:
        settings = RunSettings(host_delay=ZERO, per_host=50, max_attempts=9)
        run = await queue.start_run("books", settings=settings)
        await queue.enqueue(run.id, [Task(url=page_url(n)) for n in range(500)])
        orders = [
            {"url": server.url(), "name": f"worker-{n}", "runs": [run.id], "pages": PAGES} for n in range(4)
        ]
        working = asyncio.create_task(reports_of("tests.integration.queues.claimer", orders))
        for share in (0.1, 0.4):
            while (await queue.stats(run.id)).completed < PAGES * share:
                await asyncio.sleep(0.02)
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        reports = await working
        stats = await queue.stats(run.id)
        items = [item.data async for item in queue.items(run.id)]
        assert stats.remaining == 0
        assert stats.tasks == stats.completed == stats.items == len(items) == len(set(items))
        assert sum(report["accepted"] for report in reports) == stats.completed
        assert stats.tasks == len(reachable(range(500), PAGES))


async def test_after_a_restart_claims_are_held_back_for_the_longest_delay(server):
    async with await RedisQueue.open(server.url()) as queue:
        run = await start(queue, page(1), page(2, "b.example"), host_delay=SECOND)
        await queue.settle([Done(lease) for lease in await claim(queue, run, limit=1)])
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        grant = await queue.claim("worker-1", run_id=run.id)
        assert (list(grant.leases), grant.drained) == ([], False)
        # A worker may hold starts up to a burst ahead, of which the server has lost the last.
        assert BURST_HORIZON + SECOND / 2 < grant.next_due <= BURST_HORIZON + SECOND
        await asyncio.sleep(grant.next_due.total_seconds())
        assert len(await claim(queue, run)) == 1


async def test_a_delay_or_a_pause_that_an_outcome_brought_is_kept_after_a_restart(server):
    brakes = [{"slow_host": 10 * SECOND}, {"pause_host": 20 * SECOND}, {"pause_host": HOUR}]
    async with await RedisQueue.open(server.url()) as queue:
        for held, brake in zip((10 * SECOND, 20 * SECOND, MINUTE), brakes, strict=True):
            run = await start(queue, *(page(n, f"h{n}.example") for n in range(3)), host_delay=SECOND)
            (lease,) = await claim(queue, run, limit=1)
            await queue.settle([Done(lease, **brake)])
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            grant = await queue.claim("worker-1", run_id=run.id)
            assert list(grant.leases) == []
            assert held - 5 * SECOND < grant.next_due - BURST_HORIZON <= held
            await queue.purge(run.id)
            async with Redis.from_url(server.url()) as direct:  # the hold is over
                await direct.hset("{shoal:0}:meta", "hold", 0)


async def test_a_call_waits_for_a_server_that_is_paused(server):
    async with await RedisQueue.open(server.url()) as queue:
        run = await start(queue, page())
        server.pause()
        claiming = asyncio.create_task(claim(queue, run))
        done, _ = await asyncio.wait([claiming], timeout=0.2)
        assert not done
        server.resume()
        assert len(await claiming) == 1
