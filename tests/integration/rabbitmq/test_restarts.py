"""Servers that die during a run: what they stored is neither lost nor processed twice."""

import asyncio
import time

import pytest

from shoal.core.errors import QueueUnavailable
from shoal.core.model import MINUTE, SECOND, ZERO, Done, RunSettings, Task
from shoal.core.pacing import BURST_HORIZON
from shoal.queue.rabbitmq.queue import RabbitQueue
from tests.conformance.helpers import claim, claim_all, page, pages, start
from tests.conftest import or_skip
from tests.integration.programs import reports_of
from tests.integration.queues.web import page_url, reachable
from tests.servers.rabbitmq import SharedRabbit
from tests.servers.redis import RedisServer

PAGES = 6_000
SEEDS = 500
# RabbitMQ 3.10 writes the name of a new quorum queue to its disk a second or two after its reply.
# Killed within them, it restarts with a queue that never responds.
AGE = 4


@pytest.fixture
def broker(unshared_rabbitmq):
    """A broker that no other process uses, because the tests kill it."""
    return unshared_rabbitmq


@pytest.fixture
def memory():
    """A Redis with an append-only file, because the tests kill it."""
    with or_skip(lambda: RedisServer(append=True)) as server:
        yield server


def restart_killed(server):
    """Kill a server and start it again."""
    # Not in a thread: the server would end with it, see `process.py`.
    server.kill()
    server.start()


@pytest.mark.long
async def test_both_servers_killed_in_the_middle_of_a_run_lose_no_task_and_double_no_item(broker, memory):
    url = broker.with_state(memory.url())
    async with await RabbitQueue.open(url) as queue:
        settings = RunSettings(host_delay=ZERO, per_host=50, max_attempts=9)
        run = await queue.start_run("books", settings=settings)
        seeds = [Task(url=page_url(n), priority=n % 2) for n in range(SEEDS)]
        await queue.enqueue(run.id, seeds)
        await asyncio.sleep(AGE)
        orders = [
            {"url": url, "name": f"worker-{n}", "runs": [run.id], "pages": PAGES, "limit": 50}
            for n in range(4)
        ]
        working = asyncio.create_task(reports_of("tests.integration.queues.claimer", orders))
        for share, server in ((0.2, broker), (0.6, memory)):
            await until_completed(queue, run, PAGES * share, working)
            restart_killed(server)
            back = time.monotonic()
            done = (await queue.stats(run.id)).completed
            await until_completed(queue, run, done + 1, working)
            assert time.monotonic() - back < 10
        reports = await working
        stats = await queue.stats(run.id)
        items = [item.data async for item in queue.items(run.id)]
        assert stats.remaining == 0
        assert stats.tasks == stats.completed == stats.items == len(items) == len(set(items))
        assert sum(report["accepted"] for report in reports) == stats.completed
        assert stats.tasks == len(reachable(range(SEEDS), PAGES))


async def until_completed(queue, run, number, working):
    while (await queue.stats(run.id)).completed < number:
        assert not working.done(), working.result()
        await asyncio.sleep(0.02)


@pytest.mark.long
async def test_while_the_broker_is_away_work_is_settled_and_a_queue_opens_and_sends_it_once_it_is_back(
    broker, memory, caplog
):
    url = broker.with_state(memory.url())
    async with await RabbitQueue.open(url, patience=SECOND / 2) as queue:
        run = await start(queue, page(1), page(2), *pages(300, "c.example", delay=10 * MINUTE))
        waiting = await start(queue, *pages(600))
        leases = await claim(queue, run, limit=1)
        await asyncio.sleep(AGE)
        broker.kill()
        await queue.settle([Done(lease, follow=pages(5, "b.example")) for lease in leases])
        assert len(await claim(queue, run, limit=1)) == 1  # it was received with the first
        with pytest.raises(QueueUnavailable):
            await claim(queue, run)
        with pytest.raises(QueueUnavailable):
            await queue.enqueue(run.id, [page(3)])
        assert (await queue.stats(run.id)).tasks == 308
        caplog.clear()
        # A start takes a minute where other tests take all of the processor.
        opening = asyncio.create_task(RabbitQueue.open(url, patience=5 * MINUTE, skew=lambda: 6 * SECOND))
        while "Waiting for the queue at amqp://" not in caplog.text:
            await asyncio.sleep(0.02)
        broker.begin()
        await asyncio.to_thread(SharedRabbit(broker.port, broker.pid).wait_until_ready)
        later = await asyncio.wait_for(opening, 10)
    async with later:
        assert len(await claim_all(later, run)) == 6
        assert (await later.stats(run.id)).delayed == 300
        assert len(await claim_all(later, waiting, limit=100)) == 600


@pytest.mark.long
@pytest.mark.parametrize("brake", ["slow_host", "pause_host"])
async def test_a_delay_that_an_outcome_brought_is_kept_after_a_restart_of_redis(broker, memory, brake):
    async with await RabbitQueue.open(broker.with_state(memory.url())) as queue:
        run = await start(queue, *(page(n, f"h{n}.example") for n in range(3)), host_delay=SECOND)
        (lease,) = await claim(queue, run, limit=1)
        await queue.settle([Done(lease, **{brake: 20 * SECOND})])
        restart_killed(memory)
        grant = await queue.claim("worker-1", run_id=run.id)
        assert list(grant.leases) == []
        assert 10 * SECOND < grant.next_due - BURST_HORIZON <= 20 * SECOND
