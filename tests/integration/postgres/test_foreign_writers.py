"""Long transactions of other clients: empty host queues are closed beside them, and no task is missed."""

import asyncio
from contextlib import asynccontextmanager

import asyncpg
import pytest

from shoal.core.model import Done
from tests.conformance.helpers import HOST, claim, page, paths, start
from tests.servers.postgres import USER

OPEN = "SELECT count(*) FROM shoal.host_queue WHERE due_at IS NOT NULL"


@asynccontextmanager
async def writing(postgres, database="postgres"):
    """Keep a transaction open that has written to its own table."""
    connection = await asyncpg.connect(postgres.url(database), user=USER)
    try:
        async with connection.transaction():
            await connection.execute("CREATE TABLE public.foreign_to_the_queue (n int)")
            yield connection
            raise Discarded
    except Discarded:
        pass
    finally:
        await connection.close()


class Discarded(Exception):
    """The foreign transaction is rolled back."""


@pytest.mark.parametrize("where", ["another database", "this database"])
async def test_empty_host_queues_are_closed_while_a_foreign_transaction_is_open(
    queue, direct, postgres, postgres_database, where
):
    run = await start(queue)
    async with writing(postgres, "postgres" if where == "another database" else postgres_database):
        await queue.enqueue(run.id, [page(1, f"h{number}.example") for number in range(50)])
        await queue.settle([Done(lease) for lease in await claim(queue, run)])
        async with asyncio.timeout(20):
            while await direct.fetchval(OPEN):
                assert not await claim(queue, run)
                await asyncio.sleep(0.02)
        await queue.enqueue(run.id, [page(2, "h7.example")])
        assert paths(await claim(queue, run)) == ["h7.example/2"]


async def test_a_host_queue_is_not_closed_while_tasks_for_it_are_being_stored_for_long(
    queue, direct, uncommitted
):
    """The narrower test finds the transactions that store tasks, however many checks were in vain."""
    run = await start(queue, page(1))
    async with uncommitted() as late:
        async with uncommitted() as emptying:
            assert await claim(emptying, run)
            await late.enqueue(run.id, [page(2)])
        async with asyncio.timeout(20):
            while await direct.fetchval("SELECT max(waits) FROM shoal.host_queue") < 2:
                assert not await claim(queue, run)
                assert await direct.fetchval(OPEN) == 1
                await asyncio.sleep(0.02)
    await direct.execute("UPDATE shoal.host_queue SET due_at = clock_timestamp()")
    assert paths(await claim(queue, run)) == [f"{HOST}/2"]


async def test_looks_at_a_host_queue_that_cannot_be_closed_become_rarer(queue, direct, uncommitted):
    run = await start(queue, page(1))
    between = []  # the least and the most that each wait can be, however long the commands took
    async with uncommitted() as late:
        async with uncommitted() as emptying:
            assert await claim(emptying, run)
            await late.enqueue(run.id, [page(2)])
        for _ in range(10):
            before = await direct.fetchval(
                "UPDATE shoal.host_queue SET due_at = clock_timestamp() RETURNING due_at"
            )
            assert not await claim(queue, run)
            due, after = await direct.fetchrow("SELECT due_at, clock_timestamp() FROM shoal.host_queue")
            between.append(((due - after).total_seconds(), (due - before).total_seconds()))
    for wait, (least, most) in zip([0.1, 1, 2, 4, 8, 16, 32, 60, 60, 60], between, strict=True):
        assert least <= wait <= most
