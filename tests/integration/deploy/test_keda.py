"""KEDA's question to PostgreSQL, asked of the real schema."""

import asyncpg
import pytest

from shoal.core.model import MINUTE, Bury, Done, RunSettings, Task
from shoal.queue.postgres.queue import PostgresQueue
from tests.unit.deploy.files import manifest

(TRIGGER,) = manifest("ScaledObject", "shoal-worker")["spec"]["triggers"]
QUERY = TRIGGER["metadata"]["query"]


@pytest.fixture
async def queue(postgres_url):
    async with await PostgresQueue.open(postgres_url) as queue:
        yield queue


@pytest.fixture
async def asked(postgres_url):
    """Ask as KEDA does: one row, one column, a whole number."""
    connection = await asyncpg.connect(postgres_url)

    async def ask(query=QUERY):
        ((value,),) = await connection.fetch(query)
        assert isinstance(value, int)
        return value

    yield ask
    await connection.close()


async def filled(queue, name, *tasks):
    run = await queue.start_run(name, settings=RunSettings(per_host=100))
    await queue.enqueue(run.id, tasks)
    return run


def numbered(count, **more):
    return [Task(payload={"n": n}, **more) for n in range(count)]


async def test_tasks_that_wait_and_tasks_in_hand_are_counted_and_those_that_ended_are_not(queue, asked):
    assert await asked() == 0
    run = await filled(queue, "books", *numbered(4))
    assert await asked() == 4
    grant = await queue.claim("me", run_id=run.id, limit=4, lease=MINUTE)
    assert await asked() == 4  # a busy worker is not taken away
    done, dead, third, last = grant.leases
    await queue.settle([Done(done), Bury(dead, "no such page"), Done(third)])
    assert await asked() == 1
    await queue.workers()  # which folds the changes
    assert await asked() == 1
    await queue.settle([Done(last)])
    assert await asked() == 0


async def test_a_delay_that_is_over_and_a_lease_whose_worker_is_gone_ask_for_a_worker(
    queue, asked, postgres, postgres_database
):
    run = await filled(queue, "books", *numbered(3, delay=60 * MINUTE))
    assert await asked() == 0
    # Nobody is there to move them: the number itself must bring a worker back.
    postgres.sql("UPDATE shoal.delayed SET due_at = clock_timestamp()", database=postgres_database)
    assert await asked() == 3
    await queue.reclaim()
    await queue.claim("dead", run_id=run.id, limit=2, lease=MINUTE)
    postgres.sql("UPDATE shoal.lease SET deadline = '-infinity'", database=postgres_database)
    assert await asked() == 3


async def test_a_run_that_is_paused_or_cancelled_or_of_another_namespace_asks_for_nobody(
    queue, asked, postgres_url
):
    paused = await filled(queue, "books", *numbered(4))
    cancelled = await filled(queue, "news", *numbered(5))
    await filled(queue, "shops", *numbered(7))
    await queue.pause(paused.id)
    await queue.cancel(cancelled.id)
    assert await asked() == 7
    await queue.resume(paused.id)
    assert await asked() == 11
    async with await PostgresQueue.open(f"{postgres_url}?namespace=news") as news:
        await filled(news, "books", *numbered(3))
    assert await asked() == 11
    assert await asked(QUERY.replace("shoal.", '"shoal_news".')) == 3
