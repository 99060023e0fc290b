"""PostgreSQL only: unavailable servers, types and locks."""

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
from shoal.export.follow import follow
from shoal.export.open import open_writer
from shoal.export.tables import postgres as module
from tests.integration.export.databases import Postgres
from tests.unit.export.factories import item, items

SECRET = "hunter2"
HANG_UP = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    " AND datname = current_database()"
)


def write(url, *data, **options):
    with open_writer(url, **options) as writer:
        writer.write(items(*data))


def closed_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("{server}/nowhere", 'database "nowhere" does not exist.*Check the user'),
        ("postgresql://me:{secret}@127.0.0.1:{closed}/shop", "Start the server or fix the URL"),
        ("postgresql://me:{secret}@127.0.0.1:99999999/shop", "is not a PostgreSQL URL"),
        ("postgresql://me:{secret}/x@127.0.0.1/shop", "is not a database URL"),
    ],
)
def test_an_unavailable_server_is_reported_without_the_password(postgres, address, message):
    server = f"postgresql://shoal:{SECRET}@127.0.0.1:{postgres.port}"
    url = address.format(server=server, secret=SECRET, closed=closed_port())
    with pytest.raises((ExportFailed, InvalidSetting), match=message) as caught:
        write(f"{url}?table=books", {"n": 1})
    assert SECRET not in str(caught.value)


def test_no_thread_is_left_running(postgresql):
    before = threading.active_count()
    write(postgresql.to(), {"n": 1})
    open_writer(postgresql.to()).discard()
    assert threading.active_count() == before


async def test_an_existing_table_accepts_what_its_types_can_parse(postgresql):
    await postgresql.query(
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
    ("column", "value", "message"),
    [
        ("varchar(3)", "long", "too long"),
        ("date", "soon", "invalid input syntax for type date"),
        ("smallint", 70_000, "out of range"),
        ("int NOT NULL", None, "null value in column"),
        ("int CHECK (v > 5)", 1, "violates check constraint"),
    ],
)
async def test_a_rejected_value_is_reported_with_the_reason(postgresql, column, value, message):
    await postgresql.query(f"CREATE TABLE books (isbn text PRIMARY KEY, v {column})")
    with pytest.raises(ExportFailed, match=f"table=books could not be written: .*{message}"):
        await postgresql.put({"isbn": "1", "v": value}, key=["isbn"])
    assert await postgresql.rows() == []


async def test_the_column_type_decides_whether_keys_are_equal(postgresql):
    await postgresql.query("CREATE TABLE books (price numeric PRIMARY KEY, n int)")
    await postgresql.put({"price": 1, "n": 1}, {"price": 1.0, "n": 2}, key=["price"])
    assert [row["n"] for row in await postgresql.rows()] == [2]


async def test_of_keys_that_the_column_type_takes_as_equal_the_last_row_counts(postgresql):
    await postgresql.query("CREATE TABLE books (day date PRIMARY KEY, n int)")
    await postgresql.put({"day": "2024-1-2", "n": 1}, {"day": "2024-01-02", "n": 2}, key=["day"])
    await postgresql.put({"day": "2024-01-03", "n": 3}, {"day": "2024-1-3", "n": 4}, key=["day"])
    assert [row["n"] for row in await postgresql.rows()] == [2, 4]


async def test_a_table_may_be_in_a_schema_but_not_in_that_of_the_queue(postgresql):
    await postgresql.query("CREATE SCHEMA shop")
    await postgresql.put({"n": 1}, key=["n"], table="shop.books")
    assert await postgresql.query("SELECT n FROM shop.books") == [{"n": 1}]
    for schema in ("shoal", "shoal_news"):  # without and with a namespace
        with pytest.raises(InvalidSetting, match="reserved for the queue"):
            await postgresql.put({"n": 1}, table=f"{schema}.item")


async def test_readers_see_all_rows_at_once_and_are_never_blocked(postgresql):
    await postgresql.put({"isbn": "1"}, key=["isbn"])
    writer = open_writer(postgresql.to(), key=["isbn"])
    writer.write(items({"isbn": "2", "new": 1}, {"isbn": "3"}))
    async with asyncio.timeout(5):
        assert len(await postgresql.rows()) == 1
    writer.close()
    assert len(await postgresql.rows()) == 3


async def test_a_locked_table_is_not_waited_for_forever(postgresql, monkeypatch):
    monkeypatch.setattr(module, "SET_LOCK_TIMEOUT", "SET LOCAL lock_timeout = '100ms'")
    await postgresql.put({"isbn": "1"}, key=["isbn"])
    holder = await asyncpg.connect(postgresql.url)
    try:
        async with holder.transaction():
            await holder.execute("LOCK TABLE books IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(ExportFailed, match="Another program holds a lock"):
                await postgresql.put({"isbn": "2"}, key=["isbn"])
    finally:
        await holder.close()


async def test_a_server_that_dies_during_the_export_leaves_the_rows_unchanged(postgresql):
    await postgresql.put({"isbn": "1"}, key=["isbn"])
    writer = open_writer(postgresql.to(), key=["isbn"])
    writer.write(items({"isbn": "2"}))
    await postgresql.query(HANG_UP)
    with pytest.raises(ExportFailed, match="run the same command again"):
        await asyncio.to_thread(writer.write, items({"isbn": "3"}))
    writer.discard()
    assert len(await postgresql.rows()) == 1


async def test_follow_survives_a_lost_connection(postgresql, monkeypatch):
    monkeypatch.setattr(following, "RETRY_INTERVAL", timedelta(milliseconds=10))
    found, total = [item({"isbn": "1"}, 1)], None

    async def items_after(after):
        for one in found:
            if one.id > after:
                yield one

    async def ended():
        if total is None and await postgresql.has():
            await postgresql.query(HANG_UP)
            found.append(item({"isbn": "2"}, 2))
            return len(found)
        return total

    await follow(
        items_after,
        open_writer(postgresql.to(), key=["isbn"], live=True),
        ended=ended,
        interval=timedelta(milliseconds=10),
    )
    assert [row["isbn"] for row in await postgresql.rows()] == ["1", "2"]


async def test_a_live_table_whose_creation_was_lost_is_created_on_retry(postgresql, postgres):
    writer = open_writer(postgresql.to(), key=["isbn"], live=True)
    table, commit = writer._table, writer._table.commit

    def lose_connection():
        table.commit = commit
        postgres.sql(HANG_UP, database=postgresql.url.rpartition("/")[2])
        commit()

    table.commit = lose_connection
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
