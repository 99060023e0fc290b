"""Which server is at which address: each stores its name, and none is in the list twice."""

import asyncio

import pytest

from shoal.core.errors import QueueUnavailable, WrongServer
from shoal.queue.sharded import members
from shoal.queue.sharded.layout import NAME, TOPIC
from shoal.queue.sqlite.queue import SqliteQueue
from tests.unit.queue.sharded.hosts import NAMES, NO_DELAY, page, server


async def test_two_addresses_of_one_server_are_refused_and_nothing_is_stored(site):
    with pytest.raises(WrongServer, match="leads to the server"):
        await site.open(one="one", two="one")
    queue = await site.open("one", "two")
    assert [one.name for one in await queue.servers((await queue.start_run("books")).id)] == ["one", "two"]


async def test_a_second_address_of_a_server_that_has_a_name_is_refused(site, queue):
    with pytest.raises(WrongServer) as caught:
        await site.open(one="one", two="one")
    assert (caught.value.name, caught.value.found) == ("two", "one")


async def test_swapped_addresses_are_refused_and_the_right_ones_go_on(site, queue):
    run = await queue.start_run("books", settings=NO_DELAY)
    await queue.enqueue(run.id, [page(host) for host in NAMES])
    with pytest.raises(WrongServer):
        await site.open(one="two", two="one")
    again = await site.open("one", "two")
    assert len((await again.claim("me", run_id=run.id, limit=100)).leases) == len(NAMES)


async def test_a_server_may_get_another_name_while_nothing_is_left_to_do(site, queue):
    await site.open(eins="one", two="two")
    with pytest.raises(WrongServer):
        await site.open(two="one", eins="two")


async def test_servers_that_store_no_name_yet_get_one(site, queue):
    for name in ("one", "two"):
        await server(queue, name).call(lambda member: member.write_notes(TOPIC, {NAME: None}))
    with pytest.raises(WrongServer):
        await site.open(one="one", two="one")
    await site.open("one", "two")
    with pytest.raises(WrongServer):
        await site.open(one="two", two="one")


async def test_a_new_server_that_is_slow_to_open_is_waited_for(site, monkeypatch):
    monkeypatch.setattr(members, "STALL_TIMEOUT_SECONDS", 0.01)
    slow = site.make_server("two")

    async def open_late():
        while not slow.stalled:  # until the call that the others have replied to is left
            await asyncio.sleep(0.01)
        return await SqliteQueue.open(site.file("two"), now=site.clock.now)

    slow._open = open_late
    queue = await site.open_servers([site.make_server("one"), slow])
    assert queue._members.names == ["one", "two"]


async def test_a_new_server_that_fails_is_named(site):
    away = site.make_server("two")
    away.is_off = True
    with pytest.raises(QueueUnavailable, match="two"):
        await site.open_servers([site.make_server("one"), away])
