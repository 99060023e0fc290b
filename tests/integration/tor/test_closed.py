"""When Tor is down nobody is asked: a canary on this machine must not sing."""

import asyncio
import os
import signal
from dataclasses import replace
from datetime import timedelta

import pytest

from shoal.core.errors import FetchError, OutOfScope, TorDown
from shoal.core.http import Request
from shoal.fetch.egress import Egress
from shoal.fetch.http.engines import open_engine
from shoal.fetch.robots.robots import Robots
from shoal.fetch.tor.tor import Tor
from tests.integration.tor.conftest import UP, fetcher_by

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.long]
LOOPBACK = ("127.0.0.0/8",)


def ask(url, seconds=20.0):
    return Request(url=url, timeout=timedelta(seconds=seconds))


async def test_a_direct_fetcher_does_wake_the_canary(target):
    """The negative control: the canary can be reached from here."""
    fetcher = open_engine(egress=Egress(LOOPBACK), user_agent="shoal")
    await fetcher.fetch(ask(target.url(host="127.0.0.1")))
    await fetcher.close()
    assert target.connections == 1


async def test_no_request_is_sent_before_tor_is_up(lonely_torrc, target):
    fetcher = fetcher_by(await Tor.open(lonely_torrc), allow=LOOPBACK)
    try:
        for _ in range(20):
            with pytest.raises(TorDown):
                await fetcher.fetch(ask(target.url(host="127.0.0.1")))
            with pytest.raises(TorDown):
                await Robots(fetcher, "shoal").check(target.url(host="127.0.0.1"))
            await asyncio.sleep(0.02)
    finally:
        await fetcher.close()
    assert target.connections == 0


async def test_when_tor_is_killed_no_request_is_sent_until_it_is_up_again(tor_network, target):
    tor = await Tor.open(tor_network.torrc)
    fetcher = fetcher_by(tor, allow=LOOPBACK)
    try:
        await tor.wait_until_up(UP)
        await fetcher.fetch(ask(target.url(host="127.0.0.1")))
        before, first = target.connections, tor.pid
        os.kill(first, signal.SIGKILL)
        for _ in range(20):
            with pytest.raises(TorDown):
                await fetcher.fetch(ask(target.url(host="127.0.0.1")))
        assert target.connections == before
        await until_other(tor, first)
        await fetcher.fetch(ask(target.url()))
        assert target.exits("/")[-1] in tor_network.exits
    finally:
        await fetcher.close()


async def test_a_request_that_was_under_way_when_tor_died_is_put_off(tor_network):
    asked = asyncio.Event()

    async def silent(reader, writer):
        asked.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    for once, kind in ((False, TorDown), (True, FetchError)):
        tor = await Tor.open(tor_network.torrc)
        fetcher = fetcher_by(tor, allow=LOOPBACK)
        try:
            await tor.wait_until_up(UP)
            asked.clear()
            fetching = asyncio.create_task(fetcher.fetch(replace(ask(url), on_sent=bool if once else None)))
            await asked.wait()
            os.kill(tor.pid, signal.SIGKILL)
            with pytest.raises(kind):
                await fetching
        finally:
            await fetcher.close()
    server.close()


async def test_direct_requests_are_refused_in_a_run_by_tor(lonely_torrc, target):
    tor = await Tor.open(lonely_torrc)
    fetcher = fetcher_by(tor, allow=LOOPBACK)
    try:
        with pytest.raises(OutOfScope, match="Direct connections"):
            await fetcher._fetcher.fetch(ask(target.url(host="127.0.0.1")))
    finally:
        await fetcher.close()
    assert target.connections == 0


async def until_other(tor, pid):
    async with asyncio.timeout(UP.total_seconds()):
        while not tor.is_up or tor.pid == pid:
            await asyncio.sleep(0.02)
