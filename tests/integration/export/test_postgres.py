"""What only PostgreSQL has: a server that may be away, its types, and its locks."""

import asyncio
import datetime
import socket
import threading
from datetime import timedelta
from decimal import Decimal
from uuid import UUID

import asyncpg
import pytest

from shoal.core.errors import ExportFailed, ExportUnavailable, InvalidSetting
from shoal.export import follow as following
from shoal.export import postgres_link as module
from shoal.export.follow import follow
from shoal.export.open import open_writer
from tests.integration.export.databases import Postgres
from tests.unit.export.making import item, items

SECRET = "hunter2"
HANG_UP = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    " AND datname = current_database()"
)


def write(url, *data, **wishes):
    with open_writer(url, **wishes) as writer:
        writer.write(items(*data))


def closed_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("{server}/nowhere", 'database "nowhere" does not exist.*Check the user'),
        ("postgresql://me:{secret}@127.0.0.1:{closed}/shop", "Start the server or mend the address"),
        ("postgresql://me:{secret}@127.0.0.1:99999999/shop", "is no address of a PostgreSQL"),
        ("postgresql://me:{secret}/x@127.0.0.1/shop", "is no address of a database"),
    ],
)
def test_a_server_that_cannot_be_had_is_named_without_the_password(postgres, address, said):
    server = f"postgresql://shoal:{SECRET}@127.0.0.1:{postgres.port}"
    url = address.format(server=server, secret=SECRET, closed=closed_port())
    with pytest.raises((ExportFailed, InvalidSetting), match=said) as caught:
        write(f"{url}?table=books", {"n": 1})
    assert SECRET not in str(caught.value)


def test_no_thread_is_left_behind(postgresql):
    before = threading.active_count()
    write(postgresql.to(), {"n": 1})
    open_writer(postgresql.to()).discard()
    assert threading.active_count() == before


async def test_a_table_of_the_users_own_takes_what_its_types_can_read(postgresql):
    await postgresql.ask(
        "CREATE TABLE books (id uuid PRIMARY KEY, price numeric(8, 2), day date, pages smallint, data json,"
        " code varchar(5), at timestamptz, n int GENERATED ALWAYS AS IDENTITY)"
    )
    one = UUID(int=7)
    await postgresql.put(
        {"id": str(one), "price": 9.99, "day": "2026-02-15", "pages": 3, "data": "text", "code": 12345},
        key=["id"],
    )
    (row,) = await postgresql.rows()
    assert (row["id"], row["price"], row["pages"], row["code"]) == (one, Decimal("9.99"), 3, "12345")
    assert (row["day"], row["data"]) == (datetime.date(2026, 2, 15), '"text"')


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("varchar(3)", "long", "too long"),
        ("date", "soon", "invalid input syntax for type date"),
        ("smallint", 70_000, "out of range"),
        ("int NOT NULL", None, "null value in column"),
        ("int CHECK (v > 5)", 1, "violates check constraint"),
    ],
)
async def test_what_a_table_does_not_take_is_a_failure_that_says_why(postgresql, column, value, said):
    await postgresql.ask(f"CREATE TABLE books (isbn text PRIMARY KEY, v {column})")
    with pytest.raises(ExportFailed, match=f"table=books could not be written: .*{said}"):
        await postgresql.put({"isbn": "1", "v": value}, key=["isbn"])
    assert await postgresql.rows() == []


async def test_keys_are_the_same_where_the_column_says_so(postgresql):
    await postgresql.ask("CREATE TABLE books (price numeric PRIMARY KEY, n int)")
    await postgresql.put({"price": 1, "n": 1}, {"price": 1.0, "n": 2}, key=["price"])
    assert [row["n"] for row in await postgresql.rows()] == [2]


async def test_a_table_may_lie_in_a_schema_but_not_in_the_queues(postgresql):
    await postgresql.ask("CREATE SCHEMA shop")
    await postgresql.put({"n": 1}, key=["n"], table="shop.books")
    assert await postgresql.ask("SELECT n FROM shop.books") == [{"n": 1}]
    for queues in ("shoal", "shoal_news"):  # without and with a namespace
        with pytest.raises(InvalidSetting, match="the queue's own"):
            await postgresql.put({"n": 1}, table=f"{queues}.item")


async def test_readers_see_the_rows_all_at_once_and_are_never_held_up(postgresql):
    await postgresql.put({"isbn": "1"}, key=["isbn"])
    writer = open_writer(postgresql.to(), key=["isbn"])
    writer.write(items({"isbn": "2", "new": 1}, {"isbn": "3"}))
    async with asyncio.timeout(5):
        assert len(await postgresql.rows()) == 1
    writer.close()
    assert len(await postgresql.rows()) == 3


async def test_a_table_that_another_program_holds_is_not_waited_for_without_end(postgresql, monkeypatch):
    monkeypatch.setattr(module, "LOCKS", "SET LOCAL lock_timeout = '100ms'")
    await postgresql.put({"isbn": "1"}, key=["isbn"])
    holder = await asyncpg.connect(postgresql.url)
    try:
        async with holder.transaction():
            await holder.execute("LOCK TABLE books IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(ExportFailed, match="Another program holds it"):
                await postgresql.put({"isbn": "2"}, key=["isbn"])
    finally:
        await holder.close()


async def test_a_server_that_dies_on_the_way_is_a_failure_and_leaves_the_rows_as_they_were(postgresql):
    await postgresql.put({"isbn": "1"}, key=["isbn"])
    writer = open_writer(postgresql.to(), key=["isbn"])
    writer.write(items({"isbn": "2"}))
    await postgresql.ask(HANG_UP)
    with pytest.raises(ExportFailed, match="run the same command again"):
        await asyncio.to_thread(writer.write, items({"isbn": "3"}))
    writer.discard()
    assert len(await postgresql.rows()) == 1


async def test_a_follower_outlives_a_lost_connection(postgresql, monkeypatch):
    monkeypatch.setattr(following, "AGAIN", timedelta(milliseconds=10))
    found, total = [item({"isbn": "1"}, 1)], None

    async def behind(after):
        for one in found:
            if one.id > after:
                yield one

    async def ended():
        if total is None and await postgresql.has():
            await postgresql.ask(HANG_UP)
            found.append(item({"isbn": "2"}, 2))
            return len(found)
        return total

    await follow(
        behind,
        open_writer(postgresql.to(), key=["isbn"], live=True),
        ended=ended,
        every=timedelta(milliseconds=10),
    )
    assert [row["isbn"] for row in await postgresql.rows()] == ["1", "2"]


async def test_a_live_table_whose_making_was_lost_is_made_with_the_next_try(postgresql, postgres):
    writer = open_writer(postgresql.to(), key=["isbn"], live=True)
    table, commit = writer._table, writer._table.commit

    def lost():
        table.commit = commit
        postgres.sql(HANG_UP, database=postgresql.url.rpartition("/")[2])
        commit()

    table.commit = lost
    with pytest.raises(ExportUnavailable):
        writer.write(items({"isbn": "1"}))
    assert not await postgresql.has()
    with writer:
        writer.write(items({"isbn": "1"}))
    assert [row["isbn"] for row in await postgresql.rows()] == ["1"]


def test_rows_of_a_lost_transaction_are_not_committed_without_the_others(postgresql, postgres):
    writer = open_writer(postgresql.to(), key=["isbn"])
    writer.write(items({"isbn": "1"}))
    postgres.sql(HANG_UP, database=postgresql.url.rpartition("/")[2])
    for _ in range(2):
        with pytest.raises(ExportUnavailable):
            writer.write(items({"isbn": "2"}))
    writer.discard()


async def test_it_works_behind_a_pooler(pgbouncer_url):
    pooled = Postgres(pgbouncer_url)
    for _ in range(2):
        await pooled.put(*({"n": n, "tags": [n]} for n in range(1_200)), key=["n"])
    assert len(await pooled.rows()) == 1_200
