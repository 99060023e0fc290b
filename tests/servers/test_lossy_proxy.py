"""The lossy proxy loses exactly the answers it was told to lose, after the server has committed."""

import asyncpg
import pytest

from tests.servers.lossy_proxy import LossyProxy
from tests.servers.postgres import USER
from tests.servers.postgres_talk import PostgresTalk

LOST = (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, ConnectionError)
INSERT = "INSERT INTO written (n) VALUES ($1) RETURNING n"


@pytest.fixture
async def direct(empty_postgres_url):
    connection = await asyncpg.connect(empty_postgres_url)
    await connection.execute("CREATE TABLE written (n int)")
    yield connection
    await connection.close()


@pytest.fixture
async def proxy(postgres, direct):
    async with LossyProxy(postgres.port, PostgresTalk) as proxy:
        yield proxy


@pytest.fixture
def connect(proxy, empty_postgres_url):
    database = empty_postgres_url.rpartition("/")[2]

    async def connect(**options):
        return await asyncpg.connect(f"postgresql://{USER}@127.0.0.1:{proxy.port}/{database}", **options)

    return connect


async def written(direct):
    return [row["n"] for row in await direct.fetch("SELECT n FROM written ORDER BY n")]


@pytest.mark.parametrize("cache", [0, 100])
async def test_the_server_has_committed_what_the_client_never_hears_of(proxy, connect, direct, cache):
    client = await connect(statement_cache_size=cache)
    async with proxy.lose_next_reply(matching=b"INSERT") as loss:
        with pytest.raises(LOST):
            await client.fetchval(INSERT, 1)
    assert loss.struck == proxy.struck == 1
    assert await written(direct) == [1]
    assert proxy.connections == 0


async def test_a_request_of_many_chunks_is_lost_as_a_whole(proxy, connect, direct):
    client = await connect()
    numbers = list(range(200_000))
    async with proxy.lose_next_reply(matching=b"unnest"):
        with pytest.raises(LOST):
            await client.fetch("INSERT INTO written SELECT unnest($1::int[]) RETURNING n", numbers)
    assert await written(direct) == numbers


async def test_other_statements_pass_and_only_as_many_answers_are_lost_as_ordered(proxy, connect, direct):
    async with proxy.lose_next_reply(matching=b"INSERT", times=2) as loss:
        for _ in range(2):
            client = await connect()
            assert await client.fetchval("SELECT count(*) FROM written") == loss.struck
            with pytest.raises(LOST):
                await client.fetchval(INSERT, loss.struck)
        client = await connect()
        assert await client.fetchval(INSERT, 2) == 2
    await client.close()
    assert await written(direct) == [0, 1, 2]


async def test_an_order_that_was_never_carried_out_fails_the_test(proxy):
    with pytest.raises(AssertionError, match="lost 0 of 1"):
        async with proxy.lose_next_reply(matching=b"never"):
            pass
