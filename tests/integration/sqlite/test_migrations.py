"""Opening a file of an older Shoal migrates it with all its data."""

import apsw
import pytest

from shoal.core.model import Done, Fate
from shoal.queue.sqlite.connection import scripts
from shoal.queue.sqlite.queue import SqliteQueue
from tests.conformance.backends import VirtualClock
from tests.conformance.helpers import HOUR, claim, claim_one, pages, start

BEFORE = 2
MAKE_OLDER = """
    DROP TABLE yielded;
    ALTER TABLE host DROP COLUMN earlier;
    ALTER TABLE run DROP COLUMN reason;
    ALTER TABLE host DROP COLUMN slowdown;
    DROP TABLE known;
    ALTER TABLE run DROP COLUMN dedup;
    ALTER TABLE run DROP COLUMN dedup_steps;
    DROP TABLE clock;
    PRAGMA user_version = 2
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "queue.db"


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
async def held(path, clock):
    """A run, and a lease created by the previous version."""
    async with await SqliteQueue.open(path, now=clock.now) as queue:
        run = await start(queue, *pages(5), host_delay=HOUR)
        lease = await claim_one(queue, run)
    with apsw.Connection(str(path)) as connection:
        connection.execute(MAKE_OLDER)
    connection.close()
    return run, lease


def tables(connection):
    return set(connection.execute("SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'"))


def test_a_file_that_the_tests_make_older_has_the_tables_of_that_version(path, held):
    older, then = apsw.Connection(str(path)), apsw.Connection(":memory:")
    for script in scripts()[:BEFORE]:
        then.execute(script)
    assert older.pragma("user_version") == BEFORE
    assert tables(older) == tables(then)
    then.execute(scripts()[BEFORE])
    assert tables(older) != tables(then)
    older.close()
    then.close()


async def test_a_file_of_the_version_before_learns_to_take_starts_back(path, clock, held):
    run, old = held
    async with await SqliteQueue.open(path, now=clock.now) as queue:
        assert await queue.migrate() == len(scripts())
        assert await queue.settle([Done(old, asked=False)]) == [Fate.ACCEPTED]
        assert await claim(queue, run) == []  # what came before that start was never written down
        await clock.forward(HOUR)
        new = await claim_one(queue, run)
        assert await claim(queue, run) == []
        assert await queue.settle([Done(new, asked=False)]) == [Fate.ACCEPTED]
        assert await claim_one(queue, run)


async def test_items_that_the_version_before_stored_are_counted(path, clock):
    async with await SqliteQueue.open(path, now=clock.now) as queue:
        run = await start(queue, *pages(2))
        one, other = await claim(queue, run)
        await queue.settle([Done(one, items=["a", "b"]), Done(other)])
    with apsw.Connection(str(path)) as connection:
        connection.execute(MAKE_OLDER)
    connection.close()
    async with await SqliteQueue.open(path, now=clock.now) as queue:
        found = {status.id: status.items async for status in queue.tasks(run.id)}
    assert found == {one.task_id: 2, other.task_id: 0}
