"""The conditions of a store that a campaign deals: each does what its name says, and ends."""

import sqlite3
from contextlib import ExitStack
from functools import partial

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


def has(server, key, value):
    try:
        return server.cli("GET", key) == str(value)
    except ServerFailed:  # it loads what its primary has sent
        return False


def test_a_failover_loses_what_the_replica_missed_and_can_be_done_again(redis):
    for turn in range(2):
        (old,) = redis.servers
        old.cli("SET", "early", turn)
        failover = redis.conditions["failover"].begin.__self__
        # Not before the replica has it: what is lost is to be what came after.
        wait_until(partial(has, failover.replica, "early", turn), "the replica to have it", TIMEOUT)
        promote = failover.begin()
        old.cli("SET", "late", turn)
        promote()
        (new,) = redis.servers
        assert new is not old
        assert (new.cli("GET", "early"), new.cli("GET", "late")) == (str(turn), "")
        assert "role:master" in new.cli("INFO", "replication")
        wait_until(lambda old=old: "role:slave" in old.cli("INFO", "replication"), "the old one", TIMEOUT)


@pytest.mark.long
def test_a_failover_of_postgresql_loses_what_the_standby_missed_and_can_be_done_again(postgres):
    (first,) = postgres.servers
    first.sql("CREATE TABLE kept (word text)")
    for turn in range(2):
        (old,) = postgres.servers
        old.sql(f"INSERT INTO kept VALUES ('early {turn}')")
        promote = postgres.conditions["failover"].begin()
        old.sql(f"INSERT INTO kept VALUES ('late {turn}')")
        promote()
        (new,) = postgres.servers
        assert new is not old
        assert new.sql("SELECT string_agg(word, ', ' ORDER BY word) FROM kept").split(", ") == [
            f"early {number}" for number in range(turn + 1)
        ]
        assert old.sql("SELECT pg_is_in_recovery()") == "t"


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
