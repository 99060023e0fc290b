"""Connections that are reset under the event loop of workers and commands, which is uvloop."""

import asyncio
from contextlib import AsyncExitStack

import pytest
import uvloop

from shoal.core.model import Done
from shoal.queue.open import open_queue
from tests.conformance.helpers import claim_all, page, start
from tests.conftest import or_skip
from tests.servers.lossy_proxy import LossyProxy
from tests.servers.redis import RedisCluster
from tests.servers.redis_talk import RedisTalk

RESETS, PAUSE, CLIENTS = 15, 0.03, 3


def test_connections_that_are_reset_again_and_again_cost_no_call(stand):
    async def work():
        async with LossyProxy(stand.port, stand.talk) as proxy:
            return await _work_beside_resets(stand.through(proxy.port), [proxy])

    completed, tasks = uvloop.run(work())
    assert completed == tasks > 0


@pytest.mark.long
def test_connections_to_the_nodes_of_a_cluster_that_are_reset_cost_no_call():
    async def work(cluster):
        async with AsyncExitStack() as stack:
            proxies = []
            for node in cluster.nodes:
                proxies.append(await stack.enter_async_context(LossyProxy(node.port, RedisTalk)))
                node.cli("CONFIG", "SET", "cluster-announce-port", proxies[-1].port)
            url = f"redis://127.0.0.1:{proxies[0].port}/?cluster=true"
            return await _work_beside_resets(url, proxies)

    with or_skip(RedisCluster) as cluster:
        completed, tasks = uvloop.run(work(cluster))
    assert completed == tasks > 0


async def _work_beside_resets(url, proxies):
    """Enqueue, claim and complete tasks, and return how many are completed of how many."""
    async with open_queue(url) as queue:
        run = await start(queue)
        resetting = asyncio.create_task(_reset_often(proxies))

        async def work(client):
            tasks = 0
            while not resetting.done():
                await queue.enqueue(run.id, [page(f"{client}-{tasks}", f"{client}.example")])
                grant = await queue.claim(f"worker-{client}", run_id=run.id, limit=1)
                await queue.settle([Done(lease) for lease in grant.leases])
                tasks += 1
            return tasks

        tasks = sum(await asyncio.gather(*(work(client) for client in range(CLIENTS))))
        while leases := await claim_all(queue, run):  # a claim that takes long ends with a part
            await queue.settle([Done(lease) for lease in leases])
        completed = (await queue.stats(run.id)).completed
        await queue.purge(run.id)
    return completed, tasks


async def _reset_often(proxies):
    for _ in range(RESETS):
        await asyncio.sleep(PAUSE)
        for proxy in proxies:
            proxy.reset()
