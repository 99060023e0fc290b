"""Opening a queue migrates its database, however many clients do so at once."""

import asyncio

import pytest

from shoal.core.errors import SchemaTooNew
from shoal.queue.postgres.migrate import MIGRATIONS, NEWEST
from shoal.queue.postgres.queue import PostgresQueue
from shoal.queue.postgres.sql import scripts
from shoal.queue.schema import MAJOR
from tests.conformance.helpers import claim_all, pages, start

CROWD = 12


async def versions(connection):
    return [
        row["version"] for row in await connection.fetch("SELECT version FROM shoal.migration ORDER BY 1")
    ]


async def test_opening_an_empty_database_migrates_it(empty_postgres_url, bare):
    async with await PostgresQueue.open(empty_postgres_url) as queue:
        assert await versions(bare) == list(range(1001, NEWEST + 1))
        run = await start(queue, *pages(3))
        assert len(await claim_all(queue, run)) == 3


async def test_opening_it_again_keeps_what_is_there(empty_postgres_url, bare):
    async with await PostgresQueue.open(empty_postgres_url) as queue:
        run = await start(queue, *pages(3))
    applied = await bare.fetch("SELECT * FROM shoal.migration")
    async with await PostgresQueue.open(empty_postgres_url) as queue:
        assert await queue.migrate() == NEWEST
        assert (await queue.stats(run.id)).pending == 3
    assert await bare.fetch("SELECT * FROM shoal.migration") == applied


async def test_many_who_open_an_empty_database_at_once_all_succeed(empty_postgres_url, bare):
    queues = await asyncio.gather(*(PostgresQueue.open(empty_postgres_url) for _ in range(CROWD)))
    assert await asyncio.gather(*(queue.migrate() for queue in queues)) == [NEWEST] * CROWD
    await asyncio.gather(*(queue.close() for queue in queues))
    assert await versions(bare) == list(range(1001, NEWEST + 1))


async def test_a_migration_that_is_cut_off_leaves_nothing_and_is_done_again(empty_postgres_url, bare):
    async with bare.transaction():
        await bare.execute("SELECT pg_advisory_xact_lock(hashtextextended('shoal.migrate', 0))")
        opening = asyncio.create_task(PostgresQueue.open(empty_postgres_url))
        while not await bare.fetchval(CUT_OFF):
            await asyncio.sleep(0.005)
    async with await opening:
        assert await versions(bare) == list(range(1001, NEWEST + 1))


CUT_OFF = """
    SELECT pg_terminate_backend(l.pid) FROM pg_locks l
    WHERE l.locktype = 'advisory' AND NOT l.granted
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


async def test_a_schema_from_the_future_is_left_alone(empty_postgres_url, bare):
    await (await PostgresQueue.open(empty_postgres_url)).close()
    await bare.execute("INSERT INTO shoal.migration (version) VALUES ($1)", NEWEST + MAJOR)
    with pytest.raises(SchemaTooNew, match="pip install --upgrade shoal") as caught:
        await PostgresQueue.open(empty_postgres_url)
    assert (caught.value.found, caught.value.known) == (NEWEST + MAJOR, NEWEST)


async def test_a_schema_of_a_later_minor_version_is_used_as_it_is(empty_postgres_url, bare):
    await (await PostgresQueue.open(empty_postgres_url)).close()
    await bare.execute("INSERT INTO shoal.migration (version) VALUES ($1)", NEWEST + 1)
    async with await PostgresQueue.open(empty_postgres_url) as queue:
        assert await queue.migrate() == NEWEST + 1
        run = await start(queue, *pages(3))
        assert len(await claim_all(queue, run)) == 3


def test_every_migration_has_a_number_of_its_own():
    assert [int(name[:4]) for name, _ in scripts("migrations")] == list(range(1001, NEWEST + 1))
    assert list(MIGRATIONS) == list(range(1001, NEWEST + 1))
