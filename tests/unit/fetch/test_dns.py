"""Resolving names, and how long results are cached."""

import asyncio
import socket
from ipaddress import ip_address

import pytest

from shoal.core.errors import DnsFailed, NoSuchHost
from shoal.fetch import dns
from shoal.fetch.dns import FAILURE_LIFETIME, LIFETIME, MAX_LOOKUPS, Resolver, system_lookup


class Zone:
    """A lookup whose result the test sets, and that counts its calls."""

    def __init__(self, *addresses):
        self.says, self.asked, self.at_once, self.most_at_once = list(addresses), [], 0, 0

    async def __call__(self, name):
        self.asked.append(name)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


class Clock:
    now = 0.0

    def __call__(self):
        return self.now

    def forward(self, span):
        self.now += span.total_seconds()


@pytest.fixture
def clock():
    return Clock()


async def test_an_answer_is_believed_for_a_minute(clock):
    zone = Zone("8.8.8.8")
    known = Resolver(zone, clock)
    first = await known.resolve("a.test")
    clock.forward(LIFETIME * 0.99)
    assert await known.resolve("a.test") is first
    clock.forward(LIFETIME * 0.01)
    await known.resolve("a.test")
    assert zone.asked == ["a.test", "a.test"]


async def test_a_failure_is_believed_for_some_seconds_only(clock):
    zone = Zone()
    zone.says = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    known = Resolver(zone, clock)
    for _ in range(5):
        with pytest.raises(DnsFailed, match=r"'a\.test' could not be resolved: Name or service not known"):
            await known.resolve("a.test")
    assert zone.asked == ["a.test"]
    clock.forward(FAILURE_LIFETIME)
    zone.says = ["8.8.8.8"]
    assert (await known.resolve("a.test")).addresses == (ip_address("8.8.8.8"),)


async def test_many_who_want_one_name_ask_once(clock):
    zone = Zone("8.8.8.8")
    known = Resolver(zone, clock)
    await asyncio.gather(*(known.resolve("a.test") for _ in range(100)))
    assert zone.asked == ["a.test"]


async def test_only_so_many_names_are_asked_for_at_a_time(clock):
    zone = Zone("8.8.8.8")
    known = Resolver(zone, clock)
    await asyncio.gather(*(known.resolve(f"{number}.test") for number in range(200)))
    assert len(zone.asked) == 200
    assert zone.most_at_once == MAX_LOOKUPS


async def test_the_same_addresses_in_another_order_are_the_same_answer(clock):
    zone = Zone("8.8.8.8", "9.9.9.9")
    known = Resolver(zone, clock)
    first = await known.resolve("a.test")
    clock.forward(LIFETIME)
    zone.says = ["9.9.9.9", "8.8.8.8", "9.9.9.9"]
    assert (await known.resolve("a.test")).addresses is first.addresses
    clock.forward(LIFETIME)
    zone.says = ["9.9.9.9"]
    assert (await known.resolve("a.test")).addresses == (ip_address("9.9.9.9"),)


@pytest.mark.parametrize("says", [[], ["nonsense"], ValueError("odd"), OSError("down")], ids=repr)
async def test_a_name_without_an_address_fails(clock, says):
    zone = Zone()
    zone.says = says
    with pytest.raises(DnsFailed):
        await Resolver(zone, clock).resolve("a.test")


async def test_no_more_names_are_kept_than_there_is_room_for(clock, monkeypatch):
    monkeypatch.setattr(dns, "MAX_NAMES", 10)
    zone = Zone("8.8.8.8")
    known = Resolver(zone, clock)
    for number in range(30):
        await known.resolve(f"{number}.test")
    await known.resolve("29.test")
    assert len(zone.asked) == 30
    await known.resolve("0.test")
    assert len(zone.asked) == 31


async def test_the_system_knows_this_machine():
    assert "127.0.0.1" in await system_lookup("localhost")


@pytest.mark.parametrize("name", ["nowhere.invalid", "a" * 64 + ".invalid", "x" * 300, "..", "a b.invalid"])
async def test_the_system_says_no_to_a_name_that_is_none(name):
    with pytest.raises(OSError):
        await system_lookup(name)


async def test_a_lookup_that_is_given_up_makes_no_noise():
    task = asyncio.create_task(system_lookup("localhost"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.05)


class Names:
    """A resolver that knows some names, and says of the others that they do not exist."""

    def __init__(self, says):
        self.says, self.asked = says, []

    async def __call__(self, name):
        self.asked.append(name)
        found = self.says.get(name, NO_NAME)
        if isinstance(found, Exception):
            raise found
        return found


NO_NAME = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
AGAIN = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


@pytest.mark.parametrize(("failure", "kind"), [(NO_NAME, NoSuchHost), (AGAIN, DnsFailed)])
async def test_a_name_that_does_not_exist_is_distinguished_from_a_resolver_that_fails(clock, failure, kind):
    zone = Names({"b.test": ["8.8.8.8"], "a.test": failure})
    known = Resolver(zone, clock)
    await known.resolve("b.test")
    for _ in range(2):
        with pytest.raises(DnsFailed) as found:
            await known.resolve("a.test")
        assert type(found.value) is kind
        clock.forward(FAILURE_LIFETIME)


async def test_a_name_that_has_had_addresses_exists(clock):
    zone = Zone("8.8.8.8")
    known = Resolver(zone, clock)
    await known.resolve("a.test")
    zone.says = NO_NAME
    for _ in range(3):
        clock.forward(LIFETIME)
        with pytest.raises(DnsFailed) as found:
            await known.resolve("a.test")
        assert type(found.value) is DnsFailed


async def test_a_machine_without_a_network_does_not_say_that_a_name_does_not_exist(monkeypatch, clock):
    def offline(name, port, *, type, flags):
        raise NO_NAME if flags else AGAIN

    monkeypatch.setattr(dns.socket, "getaddrinfo", offline)
    with pytest.raises(DnsFailed) as found:
        await Resolver(system_lookup, clock).resolve("a.test")
    assert type(found.value) is DnsFailed
