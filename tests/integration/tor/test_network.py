"""Pages that come through a real Tor network, which is on this machine."""

import asyncio
import socket
from datetime import timedelta

import pytest

from shoal.core.errors import ConnectFailed, FetchTimeout
from shoal.core.http import Request
from shoal.fetch.tor.fetcher import new_circuit
from shoal.fetch.tor.sync import TorSync
from shoal.fetch.tor.tor import Tor
from shoal.queue.open import open_queue
from tests.integration.engine.shell import typed
from tests.integration.tor.conftest import UP, fetcher_by
from tests.servers.tor import TorNetwork

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.long]
MOST_TRIES = 40  # of four exits, one is taken again so often once in 4 ** 40 times


def ask(url, **more):
    return Request(url=url, timeout=timedelta(seconds=30), **more)


@pytest.fixture
def lookups(monkeypatch):
    """Count what this process asks a resolver for."""
    asked = []

    def refuse(name, *_, **__):
        asked.append(name)
        raise socket.gaierror(socket.EAI_FAIL, "this is a trap")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return asked


async def test_a_page_comes_through_tor_and_its_exit_resolves_the_name(tor_network, tor, target, lookups):
    response = await fetcher_by(tor).fetch(ask(target.url(host="www.faraway.test")))
    assert response.body.decode() in tor_network.exits
    assert target.exits() == [response.body.decode()]
    assert "www.faraway.test" in tor_network.names.asked
    assert lookups == []


async def test_a_host_keeps_its_exit_until_its_circuit_is_renewed(tor, target):
    fetcher = fetcher_by(tor)
    for _ in range(10):
        await fetcher.fetch(ask(target.url()))
    assert len(set(target.exits())) == 1
    assert target.connections == 10  # not one connection that was kept


async def exits_of_new_circuits(tor, target):
    """Take new circuits until one leaves by another exit; return the exits that were met."""
    fetcher = fetcher_by(tor)
    await fetcher.fetch(ask(target.url()))
    await fetcher.fetch(ask(target.url()))
    assert target.visits[-1].cookie  # as a visitor who comes again
    first = len(target.visits) - 1
    for _ in range(MOST_TRIES):
        fetcher.renew_host(f"site.test:{target.port}")
        await fetcher.fetch(ask(target.url()))
        assert not target.visits[-1].cookie
        if len(set(target.exits()[first:])) > 1:
            break
    return set(target.exits()[first:])


async def test_a_new_circuit_changes_the_exit_and_forgets_the_cookies(tor, target):
    if len(await exits_of_new_circuits(tor, target)) > 1:
        return
    # Tor takes exits by how much they say that they have carried, and none that says nothing where another
    # says something. In a network that is new all are alike.
    with TorNetwork() as network:
        fresh = await Tor.open(network.torrc)
        try:
            await fresh.wait_until_up(UP)
            assert len(await exits_of_new_circuits(fresh, target)) > 1
        finally:
            await fresh.close()


async def test_a_circuit_is_renewed_after_so_many_requests(tor, target):
    fetcher = fetcher_by(tor, renew=3)
    for _ in range(12):
        await fetcher.fetch(ask(target.url()))
    assert [bool(visit.cookie) for visit in target.visits] == [False, True, True] * 4
    groups = [set(target.exits()[first : first + 3]) for first in range(0, 12, 3)]
    assert all(len(group) == 1 for group in groups)


async def test_a_block_renews_the_circuit(tor, target):
    fetcher = fetcher_by(tor)
    target.statuses["/blocked"] = "403 Forbidden"
    assert (await fetcher.fetch(ask(target.url("/blocked")))).status == 403
    await fetcher.fetch(ask(target.url()))
    await fetcher.fetch(ask(target.url()))
    assert [bool(visit.cookie) for visit in target.visits] == [False, False, True]


async def test_a_step_may_ask_for_a_new_circuit_from_its_thread(tor, target):
    fetcher = fetcher_by(tor)
    await fetcher.fetch(ask(target.url()))
    for url in (target.url(), None):
        await asyncio.to_thread(new_circuit, url)
        await asyncio.sleep(0)  # in which the loop hears of it
        await fetcher.fetch(ask(target.url()))
    await fetcher.fetch(ask(target.url()))
    assert [bool(visit.cookie) for visit in target.visits] == [False, False, False, True]


async def test_an_operator_sees_every_tor_and_has_all_take_new_circuits(tor, target, tmp_path, monkeypatch):
    monkeypatch.setattr("shoal.fetch.tor.sync.SYNC_INTERVAL", timedelta(seconds=0.05))
    url, fetcher = f"sqlite:///{tmp_path}/queue.db", fetcher_by(tor)
    async with open_queue(url) as queue:
        run = await queue.start_run("shop")
        fetcher.start_sync(TorSync(queue, run.id, "worker-1"))
        await fetcher.fetch(ask(target.url()))
        await typed("tor", run.id, "--renew", "--queue", url, folder=tmp_path)
        async with asyncio.timeout(10):
            while not fetcher.state().renewed:
                await asyncio.sleep(0.01)
        await fetcher.fetch(ask(target.url()))
        await asyncio.sleep(0.2)
        seen = (await typed("tor", run.id, "--queue", url, "--json", folder=tmp_path)).row
        fetcher._sync_task.cancel()
    assert seen == {"worker": "worker-1", "state": "up", "renewed": 1, "restarts": 0} | {"says": seen["says"]}
    assert [bool(visit.cookie) for visit in target.visits] == [False, False]


async def test_hosts_share_no_circuit(tor, target):
    fetcher = fetcher_by(tor)
    before = await circuits(tor)
    for host in ("one.test", "two.test", "three.test"):
        await fetcher.fetch(ask(target.url(host=host)))
        await fetcher.fetch(ask(target.url("/again", host=host)))
    used = {name: ids for name, ids in (await circuits(tor)).items() if name not in before}
    assert len(used) == 3
    everything = [one for ids in used.values() for one in ids]
    assert len(everything) == len(set(everything))


async def test_a_redirect_to_another_host_goes_by_another_circuit(tor, target):
    fetcher = fetcher_by(tor)
    before = await circuits(tor)
    target.redirects["/"] = target.url("/there", host="second.test")
    response = await fetcher.fetch(ask(target.url(host="first.test")))
    assert response.url == target.url("/there", host="second.test")
    # One request has one name; Tor keeps its destinations apart by itself.
    (name,) = (await circuits(tor)).keys() - before.keys()
    assert len((await circuits(tor))[name]) == 2


async def test_a_name_that_no_exit_reaches_fails_and_is_not_tor_being_down(tor, target):
    port = target.port
    await target.__aexit__()
    with pytest.raises(ConnectFailed):
        await fetcher_by(tor).fetch(ask(f"http://site.test:{port}/"))


async def circuits(tor):
    """Return the ids of the circuits that Tor uses for each name."""
    found = {}
    for line in await tor._process.send_command("GETINFO circuit-status"):
        _, has_name, rest = line.partition('SOCKS_USERNAME="')
        if has_name:
            found.setdefault(rest.partition('"')[0], set()).add(line.split()[0])
    return found


@pytest.mark.full
@pytest.mark.timeout(400)
async def test_an_onion_service_is_reached(tor, target, lookups):
    host = await open_onion(tor, target.port)
    fetcher = fetcher_by(tor)
    response = await until_published(fetcher, f"http://{host}/secret")
    assert (response.status, target.visits[-1].path) == (200, "/secret")
    assert lookups == []


async def open_onion(tor, port):
    """Let Tor offer a port of this machine as an onion service; return its host."""
    (line, *_) = await tor._process.send_command(
        f"ADD_ONION NEW:ED25519-V3 Flags=DiscardPK Port=80,127.0.0.1:{port}"
    )
    return f"{line.removeprefix('ServiceID=')}.onion"


async def until_published(fetcher, url):
    """Fetch from an onion service, which takes a while to be known: minutes on a busy machine."""
    async with asyncio.timeout(300):
        while True:
            try:
                return await fetcher.fetch(ask(url))
            except (ConnectFailed, FetchTimeout):  # of a busy machine, whose circuits take long
                await asyncio.sleep(0.2)
