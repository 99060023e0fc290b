"""A database of the previous version is migrated to give starts back, while its workers continue."""

from uuid import uuid4

import pytest

from shoal.core.model import Done, Fate
from shoal.queue.intake import prepare
from shoal.queue.postgres.queue import PostgresQueue
from shoal.queue.postgres.settle import SETTLE, outcome_columns
from tests.conformance.backends import ServerClock
from tests.conformance.helpers import HOUR, claim, claim_one, pages, start
from tests.integration.postgres.older import functions, make_older

BEFORE = 4
NEW = 4  # arguments of settle that version 4 does not know


@pytest.fixture
async def held(empty_postgres_url, bare):
    """A run, and a lease created by the previous version."""
    async with await PostgresQueue.open(empty_postgres_url) as queue:
        run = await start(queue, *pages(5), host_delay=HOUR)
        lease = await claim_one(queue, run)
    await make_older(bare, BEFORE)
    return run, lease


@pytest.fixture
async def clock(empty_postgres_url):
    clock = ServerClock(empty_postgres_url)
    yield clock
    await clock.close()


async def test_a_database_of_the_version_before_learns_to_take_starts_back(
    empty_postgres_url, bare, clock, held
):
    run, old = held
    async with await PostgresQueue.open(empty_postgres_url) as queue:
        assert await queue.settle([Done(old, asked=False)]) == [Fate.ACCEPTED]
        assert await claim(queue, run) == []  # what came before that start was never written down
        clock.queues.append(queue)
        await clock.forward(HOUR)
        new = await claim_one(queue, run)
        assert await claim(queue, run) == []
        assert await queue.settle([Done(new, asked=False)]) == [Fate.ACCEPTED]
        assert await claim_one(queue, run)
    assert [await functions(bare, name) for name in ("claim", "settle", "finish")] == [1, 1, 1]


async def test_a_worker_of_the_version_before_goes_on_beside_it(empty_postgres_url, bare, held):
    run, old = held
    async with await PostgresQueue.open(empty_postgres_url) as queue:
        arguments = outcome_columns(prepare([Done(old, items=["a"])], {}))[:-NEW]
        accepted = await bare.fetchval(as_before(SETTLE), uuid4(), False, run.id, *arguments)
        assert accepted is None  # all of them
        stats = await queue.stats(run.id)
        assert (stats.completed, stats.items) == (1, 1)
        assert await claim(queue, run) == []


def as_before(call: str) -> str:
    """Return the call of the previous version of a function that has new arguments."""
    return call.rsplit(", ", NEW)[0] + ")"
