"""Files that are new, known, too new, or of another program."""

import apsw
import pytest

from shoal.core.errors import QueueError, SchemaTooNew
from shoal.queue.schema import MAJOR
from shoal.queue.sqlite.connection import APPLICATION_ID, SqliteAddress, connect, migrate, scripts
from shoal.queue.sqlite.queue import SqliteQueue


async def test_a_new_file_gets_the_schema_and_our_mark(store):
    assert store.connection.pragma("user_version") == max(scripts())
    assert store.connection.pragma("application_id") == APPLICATION_ID
    assert store.connection.pragma("journal_mode") == "wal"


async def test_a_file_of_the_next_major_version_is_refused_and_left_alone(store, address):
    newer = max(scripts()) + MAJOR
    store.connection.pragma("user_version", newer)
    with pytest.raises(SchemaTooNew) as refusal:
        await SqliteQueue.open(address.path)
    assert (refusal.value.found, refusal.value.known) == (newer, max(scripts()))
    assert store.connection.pragma("user_version") == newer


async def test_a_file_of_a_later_minor_version_is_used_as_it_is(store, address):
    newer = max(scripts()) + 1
    store.connection.pragma("user_version", newer)
    async with await SqliteQueue.open(address.path) as queue:
        assert await queue.migrate() == newer
    assert store.connection.pragma("user_version") == newer


async def test_a_file_of_an_earlier_minor_version_gets_what_it_lacks(store, address, monkeypatch):
    newer = max(scripts()) + 1
    more = {**scripts(), newer: "CREATE TABLE more (a)"}
    monkeypatch.setattr("shoal.queue.sqlite.connection.scripts", lambda: more)
    async with await SqliteQueue.open(address.path) as queue:
        assert await queue.migrate() == newer
    assert list(store.connection.execute("SELECT * FROM more")) == []


async def test_a_script_that_breaks_leaves_the_old_version(store, monkeypatch):
    monkeypatch.setattr(
        "shoal.queue.sqlite.connection.scripts",
        lambda: {**scripts(), 1999: "CREATE TABLE more (a); nonsense"},
    )
    with pytest.raises(apsw.SQLError), store.connection:
        migrate(store)
    assert store.connection.pragma("user_version") == max(scripts())
    assert not list(store.connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'more'"))


async def test_a_database_of_another_program_is_refused_and_left_alone(address):
    other = apsw.Connection(str(address.path))
    other.execute("CREATE TABLE precious (data)")
    with pytest.raises(QueueError, match="another program"):
        await SqliteQueue.open(address.path)
    assert other.pragma("journal_mode") == "delete"
    assert list(other.execute("SELECT name FROM sqlite_schema")) == [("precious",)]
    other.close()


async def test_an_empty_file_becomes_a_queue(address):
    address.path.touch()
    async with await SqliteQueue.open(address.path) as queue:
        assert await queue.runs() == []


@pytest.mark.parametrize(("asked", "level"), [("normal", 1), ("full", 2)])
def test_how_safe_a_commit_is_can_be_chosen(tmp_path, asked, level):
    connection = connect(SqliteAddress(tmp_path / "queue.db", synchronous=asked))
    assert connection.pragma("synchronous") == level
    connection.close()
