"""The queue behind a PgBouncer in transaction mode, with fewer connections than claimers."""

import asyncio
from collections import Counter

import pytest

from shoal.core.model import Done, Fate
from shoal.queue.postgres.queue import PostgresQueue
from shoal.queue.postgres.server import KeepaliveConnection
from tests.conformance.helpers import claim_all, data_of, page, pages, start

CLAIMERS = 8


@pytest.fixture
async def pooled(pgbouncer_url):
    async with await PostgresQueue.open(pgbouncer_url) as queue:
        yield queue


@pytest.fixture
async def pooled_crowd(pgbouncer_url):
    """One queue per claimer, each with its own connections to the pooler."""
    queues = await asyncio.gather(*(PostgresQueue.open(pgbouncer_url) for _ in range(CLAIMERS)))
    yield queues
    await asyncio.gather(*(queue.close() for queue in queues))


async def test_the_pooler_is_noticed(pooled, queue):
    assert await pooled._server._uses_pooler()
    assert not await queue._server._uses_pooler()


async def test_a_pooler_gets_no_named_statement_and_a_server_gets_the_settings_of_the_session(pooled, queue):
    named = "SELECT count(*) FROM pg_prepared_statements"
    assert await pooled._server.value(named) == 0
    idle = "SELECT current_setting('idle_in_transaction_session_timeout')"
    assert await queue._server.value(idle) == "1min"
    assert await queue._server.value(named) > 0


async def test_a_server_is_opened_with_one_connection(empty_postgres_url, monkeypatch):
    opened = []
    connect = KeepaliveConnection.__init__
    monkeypatch.setattr(
        KeepaliveConnection, "__init__", lambda self, *more: opened.append(self) or connect(self, *more)
    )
    monkeypatch.setattr("asyncpg.connect", None)
    async with await PostgresQueue.open(empty_postgres_url) as queue:
        assert await queue.runs() == []
    assert len(opened) == 1


async def test_the_pooler_sends_the_server_only_queries(postgres, postgres_database, pgbouncer_url):
    postgres.sql(f"ALTER DATABASE {postgres_database} SET log_statement = 'all'")
    before = len(postgres.log.read_text())
    async with await PostgresQueue.open(pgbouncer_url) as queue:
        run = await start(queue, page(1))
        assert (await queue.stats(run.id)).pending == 1
    logged = postgres.log.read_text()[before:]
    assert "The counts of a run" in logged
    assert "SET client_encoding" not in logged


async def test_an_empty_database_is_migrated_through_the_pooler(pgbouncer, empty_postgres_url):
    database = empty_postgres_url.rpartition("/")[2]
    async with await PostgresQueue.open(pgbouncer.url(database)) as queue:
        run = await start(queue, *pages(3))
        assert len(await claim_all(queue, run)) == 3


@pytest.mark.long
async def test_claimers_at_once_complete_every_task_once(pooled, pooled_crowd):
    run = await start(pooled, *(page(n, f"h{n % 40}.example") for n in range(800)), per_host=1)
    claimed = Counter()

    async def work(queue, name):
        while not (grant := await queue.claim(name, run_id=run.id, limit=10)).drained:
            claimed.update(lease.task_id for lease in grant.leases)
            fates = await queue.settle([Done(lease, items=[lease.task.url]) for lease in grant.leases])
            assert set(fates) <= {Fate.ACCEPTED}
            if not grant.leases:
                await asyncio.sleep(0.01)

    async with asyncio.timeout(30):
        await asyncio.gather(*(work(queue, f"claimer-{n}") for n, queue in enumerate(pooled_crowd)))
    assert len(claimed) == claimed.total() == 800
    assert (await pooled.stats(run.id)).completed == 800
    assert len(set(await data_of(pooled, run))) == 800


async def test_a_pooler_that_is_restarted_is_found_again(pooled, pgbouncer):
    run = await start(pooled, *pages(3))
    pgbouncer.restart()
    assert len(await claim_all(pooled, run)) == 3
