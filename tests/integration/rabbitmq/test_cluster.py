"""A cluster that loses one of its three nodes: work continues, nothing is lost and nothing is done twice."""

import asyncio

import pytest

from shoal.core.model import MINUTE, ZERO, RunSettings, Task
from shoal.queue.rabbitmq.queue import RabbitQueue
from tests.conftest import or_skip
from tests.integration.programs import run_programs
from tests.integration.queues.web import page_url
from tests.servers.process import wait_until
from tests.servers.rabbitmq import RabbitCluster
from tests.servers.redis import RedisServer

PAGES = 2_000
PAUSE = 3 * MINUTE  # within which some pages must be done, however busy the machine is
LONGEST = 900.0
WHOLE_TIMEOUT = 300.0
LOOK = 0.5  # seconds between two looks at the cluster: each starts three processes


@pytest.fixture(scope="module")
def cluster():
    with or_skip(RabbitCluster) as cluster:
        yield cluster


@pytest.fixture
def memory():
    with or_skip(RedisServer) as server:
        yield server


@pytest.mark.long
@pytest.mark.timeout(1_200)
async def test_a_node_that_is_killed_frozen_or_cut_off_costs_nothing(cluster, memory):
    url = cluster.with_state(memory.url())
    first, second, third = cluster.nodes
    troubles = [
        (first.kill, first.start),
        (second.pause, second.resume),
        (lambda: cluster.cut_off(third), lambda: cluster.rejoin(third)),
    ]
    async with await RabbitQueue.open(url, patience=PAUSE) as queue:
        settings = RunSettings(host_delay=ZERO, per_host=50, max_attempts=9)
        run = await queue.start_run("books", settings=settings)
        orders = [{"url": url, "name": f"worker-{n}", "runs": [run.id]} for n in range(3)]
        async with run_programs("tests.integration.queues.claimer", orders, within=LONGEST) as workers:
            for number, (start_fault, end_fault) in enumerate(troubles):
                await queue.enqueue(run.id, tasks(2 * number))
                start_fault()
                await queue.enqueue(run.id, tasks(2 * number + 1))
                await until_completed(queue, run, 2 * (number + 1) * PAGES)
                end_fault()
                # One node at a time may be lost: the next not before this one has caught up.
                await asyncio.to_thread(
                    *(wait_until, cluster.is_whole, "the cluster to be whole", WHOLE_TIMEOUT), every=LOOK
                )
            reports = await workers.reports()
        stats = await queue.stats(run.id)
        items = [item.data async for item in queue.items(run.id)]
    assert stats.tasks == stats.completed == stats.items == len(set(items)) == 6 * PAGES
    assert len(items) == sum(report["accepted"] for report in reports) == 6 * PAGES


def tasks(batch):
    return [Task(url=page_url(batch * PAGES + n), priority=n % 2) for n in range(PAGES)]


async def until_completed(queue, run, number):
    async with asyncio.timeout(PAUSE.total_seconds()):
        while (await queue.stats(run.id)).completed < number:
            await asyncio.sleep(0.05)
