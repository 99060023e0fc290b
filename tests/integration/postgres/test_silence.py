"""A server that does not respond: the client notices, and each call takes effect once."""

import asyncio
import logging
import socket
import time
from datetime import timedelta

import pytest

from shoal.core.errors import QueueUnavailable
from shoal.core.model import Done
from shoal.queue.postgres import server
from shoal.queue.postgres import server as alive
from shoal.queue.postgres.queue import PostgresQueue
from tests.conformance.helpers import claim_one, data_of, page, start
from tests.conftest import or_skip
from tests.servers.postgres import PostgresServer

SOON = 0.5  # seconds


@pytest.fixture
def frozen():
    """A separate server, because the test freezes it."""
    with or_skip(PostgresServer) as made:
        yield made


@pytest.fixture
def impatient(monkeypatch):
    """Use short timeouts for all calls."""
    for name in ("CONNECT_TIMEOUT_SECONDS", "CLOSE_TIMEOUT_SECONDS"):
        monkeypatch.setattr(server, name, SOON)
    for call in (server.PostgresServer.fetch, server.PostgresServer.once):
        monkeypatch.setitem(call.__kwdefaults__, "timeout", SOON)


@pytest.mark.long
async def test_a_server_that_freezes_is_noticed_and_found_again(frozen, impatient, caplog):
    async with await PostgresQueue.open(frozen.url(), patience=timedelta(seconds=3)) as queue:
        run = await start(queue, page())
        frozen.pause()
        began = time.monotonic()
        with caplog.at_level(logging.WARNING), pytest.raises(QueueUnavailable, match="does not respond"):
            await queue.claim("me", run_id=run.id)
        assert time.monotonic() - began < 8
        assert "it does not respond" in caplog.text
        frozen.resume()
        # Leases of calls whose caller gave up are returned when their worker is abandoned.
        await queue.abandon("me")
        assert await claim_one(queue, run, "me")


@pytest.mark.long
async def test_a_settlement_that_waited_in_a_frozen_server_is_done_once(frozen, impatient):
    async with await PostgresQueue.open(frozen.url(), patience=timedelta(seconds=30)) as queue:
        run = await start(queue, page())
        lease = await claim_one(queue, run, "me")
        frozen.pause()
        settling = asyncio.create_task(queue.settle([Done(lease, items=["one"])]))
        await asyncio.sleep(4 * SOON)
        assert not settling.done()
        frozen.resume()
        async with asyncio.timeout(20):
            await settling
        assert await data_of(queue, run) == ["one"]


async def test_a_queue_whose_server_is_frozen_can_be_closed(frozen, impatient):
    queue = await PostgresQueue.open(frozen.url(), patience=timedelta(seconds=30))
    run = await start(queue, page())
    frozen.pause()
    claiming = asyncio.create_task(queue.claim("me", run_id=run.id))
    await asyncio.sleep(0.1)
    claiming.cancel()
    async with asyncio.timeout(10):
        await asyncio.wait([claiming])
        await queue.close()


async def test_a_long_call_is_given_the_time_that_it_takes(queue, direct, impatient):
    run = await start(queue, page())
    async with direct.transaction():
        await direct.execute("LOCK TABLE shoal.run IN ACCESS EXCLUSIVE MODE")
        purging = asyncio.create_task(
            queue._server.fetch("SELECT * FROM shoal.purge($1::text)", run.id, timeout=None)
        )
        await asyncio.sleep(3 * SOON)
        assert not purging.done()
    async with asyncio.timeout(20):
        await purging
    assert await queue.runs() == []


async def test_both_ends_of_a_connection_test_whether_the_other_is_there(queue):
    shown = [await queue._server.value("SELECT current_setting($1)", name) for name in alive.SESSION]
    numbers = (
        alive.KEEPALIVE_IDLE,
        alive.KEEPALIVE_INTERVAL_SECONDS,
        alive.KEEPALIVE_PROBES,
        1_000 * alive.USER_TIMEOUT_SECONDS,
    )
    assert shown == ["UTC", *map(str, numbers), "1min"]
    async with queue._server._pool.acquire() as connection:
        sock = connection._con._transport.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == alive.KEEPALIVE_IDLE
        assert (
            sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 1_000 * alive.USER_TIMEOUT_SECONDS
        )


async def test_over_a_unix_socket_there_is_nothing_to_test(postgres, postgres_database):
    async with await PostgresQueue.open(postgres.socket_url(postgres_database)) as queue:
        assert await queue.runs() == []
