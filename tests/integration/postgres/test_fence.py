"""A worker that was declared dead cannot write; without the token it could."""

from datetime import timedelta

import pytest

from shoal.core.model import Done, Fate
from tests.conformance.helpers import claim_one, data_of, page, start

SHORT = timedelta(milliseconds=1)

# How most queues in PostgreSQL end a task: by its id, whichever worker holds it.
UNFENCED = """
    WITH ended AS (DELETE FROM shoal.lease WHERE task = $1 RETURNING run, task)
    INSERT INTO shoal.item (run, task, stored_at, data)
    SELECT run, task, clock_timestamp(), $2 FROM ended RETURNING task
"""


@pytest.fixture
async def run(queue):
    return await start(queue, page())


@pytest.fixture
async def zombie(queue, run):
    """A lost lease whose holder still works on the task."""
    lease = await claim_one(queue, run, "zombie", lease=SHORT)
    while not await queue.reclaim():
        pass
    return lease


@pytest.fixture
async def alive(queue, run, zombie):
    """The lease of the worker that has the same task now."""
    lease = await claim_one(queue, run, "alive")
    assert lease.task_id == zombie.task_id
    return lease


async def test_without_the_token_the_zombie_writes_and_takes_the_living_workers_lease(
    queue, run, direct, zombie, alive
):
    assert await direct.fetchval(UNFENCED, bytes.fromhex(zombie.task_id), '"zombie"')
    assert await queue.settle([Done(alive, items=["alive"])]) == [Fate.STALE]
    assert await data_of(queue, run) == ["zombie"]
