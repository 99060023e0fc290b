"""How many connections a queue opens."""

import asyncio

from shoal.queue.postgres.connections import MAX_WAITING, GrowingTurns
from shoal.queue.postgres.queue import PostgresQueue
from shoal.queue.postgres.server import MAX_CONNECTIONS


async def test_calls_that_come_at_once_share_a_connection(postgres_url):
    async with await PostgresQueue.open(postgres_url) as queue:
        # On a busy machine all are slow.
        queue._server._turns = GrowingTurns(MAX_CONNECTIONS, max_waited=3600)
        await asyncio.gather(*(queue.runs() for _ in range(1 + MAX_WAITING)))
        assert queue._server._pool.get_size() == 1


async def test_a_call_does_not_wait_for_the_end_of_a_slow_one(postgres_url):
    async with await PostgresQueue.open(postgres_url) as queue, asyncio.timeout(30):
        slow = asyncio.create_task(queue._server.fetch("SELECT pg_sleep(60)", timeout=None))
        while not slow.done() and queue._server._pool.get_idle_size():
            await asyncio.sleep(0.01)
        assert await queue.runs() == []
        assert not slow.done() and queue._server._pool.get_size() == 2
        slow.cancel()
        await asyncio.wait([slow])


async def test_many_calls_at_once_open_no_more_connections_than_a_process_may_have(postgres_url):
    async with await PostgresQueue.open(postgres_url) as queue:
        await asyncio.gather(*(queue.runs() for _ in range(50)))
        assert 1 < queue._server._pool.get_size() <= MAX_CONNECTIONS
