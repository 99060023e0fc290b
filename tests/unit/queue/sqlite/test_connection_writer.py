"""Calls that arrive together share one commit, and no call fails because of another."""

import asyncio

import apsw
import pytest

from shoal.core.errors import QueueFull, QueueUnavailable
from shoal.queue.sqlite.connection import ThreadCall


@pytest.fixture
def commits(store):
    """A list that grows by one with every commit."""
    seen = []
    store.connection.set_commit_hook(lambda: bool(seen.append(1)))
    yield seen
    store.connection.set_commit_hook(None)


def host(name):
    """Return a function that writes to the file."""

    def act(store):
        store.run("host_queue_add_hosts", names=f'[["", "", "{name}"]]')
        return name

    return act


def breaks(error):
    """Return a function that writes to the file, and then fails."""

    def act(store):
        host("half-done.example")(store)
        raise error

    return act


def loses_all(store):
    """Do what SQLite does on a full disk: roll back the whole transaction."""
    store.connection.execute("ROLLBACK")
    raise apsw.FullError("database or disk is full")


def serve(writer, store, *acts):
    calls = [ThreadCall(act, asyncio.get_running_loop().create_future()) for act in acts]
    writer.serve(store, calls)
    return calls


def hosts(store):
    return {name for (name,) in store.connection.execute("SELECT name FROM host WHERE id > 0")}


async def test_calls_that_come_in_together_share_one_commit(writer, store, commits):
    calls = serve(writer, store, host("a"), host("b"), host("c"))
    assert [call.result for call in calls] == ["a", "b", "c"]
    assert hosts(store) == {"a", "b", "c"}
    assert len(commits) == 1


async def test_a_call_that_fails_takes_back_only_itself(writer, store, commits):
    calls = serve(writer, store, host("a"), breaks(ValueError("no")), host("c"))
    assert [type(call.error) for call in calls] == [type(None), ValueError, type(None)]
    assert hosts(store) == {"a", "c"}
    assert len(commits) == 1


async def test_a_call_that_fails_alone_leaves_nothing(writer, store):
    (call,) = serve(writer, store, breaks(ValueError("no")))
    assert isinstance(call.error, ValueError)
    assert hosts(store) == set()
    assert not store.connection.in_transaction


async def test_when_the_whole_group_is_taken_back_each_call_tries_alone(writer, store):
    calls = serve(writer, store, host("a"), loses_all, host("c"))
    assert [type(call.error) for call in calls] == [type(None), QueueFull, type(None)]
    assert hosts(store) == {"a", "c"}


async def test_what_was_remembered_of_a_host_queue_is_forgotten_when_it_is_taken_back(writer, store):
    store.host_queues[1] = {("main", "", "a"): 7}
    serve(writer, store, host("a"), breaks(ValueError("no")))
    assert store.host_queues == {}


async def test_a_file_that_stays_locked_fails_every_call_after_one_wait(writer, store, address):
    other = apsw.Connection(str(address.path))
    other.execute("BEGIN IMMEDIATE")
    calls = serve(writer, store, host("a"), host("b"))
    assert [type(call.error) for call in calls] == [QueueUnavailable, QueueUnavailable]
    other.execute("ROLLBACK")
    other.close()
    serve(writer, store, host("a"), host("b"))
    assert hosts(store) == {"a", "b"}


async def test_an_error_keeps_its_cause(writer, store):
    (call,) = serve(writer, store, breaks(apsw.FullError("full")))
    assert isinstance(call.error.__cause__, apsw.FullError)
