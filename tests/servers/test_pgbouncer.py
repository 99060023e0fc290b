"""The private PgBouncer really shares few connections among many clients."""

import asyncio

import asyncpg


async def connect(url):
    # The unnamed statement: PgBouncer 1.18 hands a client another server connection with every transaction.
    return await asyncpg.connect(url, statement_cache_size=0)


async def test_many_clients_share_at_most_four_connections(pgbouncer):
    clients = await asyncio.gather(*(connect(pgbouncer.url()) for _ in range(20)))
    pids = await asyncio.gather(*(client.fetchval("SELECT pg_backend_pid()") for client in clients))
    await asyncio.gather(*(client.close() for client in clients))
    assert len(set(pids)) <= 4


async def test_it_comes_back_on_its_port_after_a_restart(pgbouncer):
    pgbouncer.restart()
    client = await connect(pgbouncer.url())
    assert await client.fetchval("SELECT 1") == 1
    await client.close()
