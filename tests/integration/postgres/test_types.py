"""The types of arguments and results: those that the driver knows without asking the server."""

from datetime import timedelta

import asyncpg
import pytest

from shoal.core.model import MINUTE, Done, Retry, Task
from shoal.queue.postgres.connections import described
from shoal.queue.postgres.queue import PostgresQueue
from tests.conformance.helpers import claim, page, start

BUILT_IN_ARRAYS = ("bool", "bytea", "int2", "int4", "int8", "float8", "timestamptz", "interval", "uuid")


@pytest.fixture
def looked_up(monkeypatch):
    """The types that a connection asks the server for."""
    found = []
    original = asyncpg.Connection._introspect_types

    async def introspect(connection, typeoids, timeout):
        found.append(typeoids)
        return await original(connection, typeoids, timeout)

    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", introspect)
    return found


async def test_no_connection_looks_up_the_types_of_work(queue, looked_up):
    """A lookup takes the server longer than ten claims."""
    run = await start(queue, page(1), page(2), Task(url="https://other.example/"))
    done, unused, again = await claim(queue, run)
    await queue.extend([done, unused])
    follow = [page(3), page(4)]
    await queue.settle(
        [Done(done, items=[{"n": 1}], follow=follow), Done(unused, asked=False), Retry(again, "slow")]
    )
    assert await claim(queue, run)
    assert looked_up == []


async def test_the_server_describes_the_array_types_in_the_same_way(direct):
    oids = [await direct.fetchval(f"SELECT '{name}[]'::regtype::oid") for name in BUILT_IN_ARRAYS]
    ours = described(oids)
    rows, _ = await direct._introspect_types(oids, 10)
    theirs = {row["oid"]: row for row in rows}
    assert ours == [{key: theirs[oid][key] for key in ours[0]} for oid in oids]


@pytest.mark.parametrize("address", ["postgres_url", "pgbouncer_url"])
async def test_a_day_has_24_hours_whatever_the_time_zone_of_the_server(
    address, request, postgres, postgres_database, direct
):
    postgres.sql(f"ALTER DATABASE {postgres_database} SET timezone = 'Europe/Berlin'")
    # At least one of these times ends after the clocks have changed, and before they change back.
    times = [timedelta(days=30 * n) for n in range(1, 13)]
    async with await PostgresQueue.open(request.getfixturevalue(address)) as queue:
        run = await start(queue, *(page(n, delay=time) for n, time in enumerate(times)))
        await queue.enqueue(run.id, [page(f"expires-{n}", ttl=time) for n, time in enumerate(times)])
    for query in ("SELECT due_at FROM shoal.delayed", "SELECT expires_at FROM shoal.bundle"):
        now = await direct.fetchval("SELECT clock_timestamp()")
        ends = sorted(moment for (moment,) in await direct.fetch(query))
        assert len(ends) == len(times)
        assert all(abs(end - now - time) < MINUTE for end, time in zip(ends, times, strict=True))
