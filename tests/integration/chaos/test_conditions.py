"""The conditions of a store that a campaign deals: each does what its name says, and ends."""

import sqlite3
from contextlib import ExitStack

import pytest

from tests.conftest import or_skip
from tests.servers.process import ServerFailed, wait_until
from tools.chaos.conditions import hold_file
from tools.chaos.stores import open_store

TIMEOUT = 30


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    with ExitStack() as stack:
        yield or_skip(lambda: stack.enter_context(open_store("redis", tmp_path_factory.mktemp("redis"))))


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("postgres")
        yield or_skip(lambda: stack.enter_context(open_store("postgresql", folder)))


@pytest.mark.parametrize(("kind", "refusal"), [("full", "OOM"), ("readonly", "READONLY")])
def test_redis_refuses_writes_while_it_is_full_or_a_replica(redis, kind, refusal):
    (server,) = redis.servers
    undo = redis.conditions[kind].begin()
    with pytest.raises(ServerFailed, match=refusal):
        server.cli("SET", "key", "value")
    undo()
    assert server.cli("SET", "key", "value") == "OK"


def test_postgresql_refuses_writes_while_it_is_read_only(postgres):
    (server,) = postgres.servers
    undo = postgres.conditions["readonly"].begin()
    with pytest.raises(ServerFailed, match="read-only"):
        server.sql("CREATE TABLE one (id int)")
    undo()
    server.sql("CREATE TABLE one (id int)")


def test_a_foreign_transaction_holds_the_oldest_transaction_of_the_server(postgres):
    (server,) = postgres.servers
    oldest = "SELECT pg_snapshot_xmin(pg_current_snapshot())"
    undo = postgres.conditions["foreign"].begin()
    before = server.sql("SELECT pg_current_xact_id()", "SELECT pg_current_xact_id()", oldest).splitlines()
    assert int(before[2]) < int(before[0])
    undo()
    wait_until(lambda: int(server.sql(oldest)) > int(before[0]), "the transaction to end", TIMEOUT)


def test_a_file_that_another_program_writes_to_is_locked(tmp_path):
    file = tmp_path / "queue.db"
    undo = hold_file(file).begin()
    with sqlite3.connect(file, timeout=0) as connection:
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            connection.execute("CREATE TABLE one (id int)")
        undo()
        connection.execute("CREATE TABLE one (id int)")
    connection.close()
