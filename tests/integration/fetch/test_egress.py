"""The egress rules with real sockets: a canary on this machine must never be reached."""

import asyncio
from datetime import timedelta
from ipaddress import ip_address

import pytest

from shoal.core.errors import FetchError, OutOfScope
from shoal.core.http import Request
from shoal.fetch.contract import Limits
from shoal.fetch.egress import AllowedTarget, Egress
from shoal.fetch.http.wreq import WreqEngine
from shoal.fetch.robots.robots import Robots
from tests.integration.fetch.hostile import Origin, page, redirect

# Every spelling leads to this machine on Linux, or would lead to an internal network.
INNER = """
    127.0.0.1 127.1 127.0.1 2130706433 0x7f000001 0x7f.1 0177.0.0.1 017700000001 127.0.0.1. %31%32%37.0.0.1
    \uff11\uff12\uff17.0.0.1 127。0。0。1 0 0.0.0.0 0x0 127.255.255.254 127.127.127.127
    [::1] [::] [::127.0.0.1]
    [::ffff:127.0.0.1] [::ffff:7f00:1] [0:0:0:0:0:ffff:127.0.0.1] [::ffff:0:127.0.0.1] [64:ff9b::127.0.0.1]
    [64:ff9b:1::7f00:1] [2002:7f00:1::] [2001:0:808:808::80ff:fffe] localhost LOCALHOST localhost.
    10.0.0.1 172.16.0.1 192.168.0.1 169.254.169.254 100.64.0.1 168.63.129.16 192.0.0.192 198.18.0.1 224.0.0.1
    255.255.255.255 240.0.0.1 192.0.2.1 203.0.113.1 [fe80::1] [fc00::1] [fd00:ec2::254] [ff02::1]
    [2001:db8::1] [::ffff:169.254.169.254] [64:ff9b::a9fe:a9fe] [2002:a9fe:a9fe::] 2852039166 0xa9fea9fe
    3232235521 167772161 0xa.1 012.1 192.168.257 [fec0::1] [3fff::1] [100::1] [5f00::1] 100.100.100.200
"""

INNER_ANSWERS = """
    127.0.0.1 127.9.9.9 0.0.0.0 10.0.0.1 172.16.0.1 192.168.0.1 169.254.169.254 100.64.0.1 ::1 ::
    ::ffff:127.0.0.1 64:ff9b::7f00:1 64:ff9b:1::7f00:1 2002:7f00:1:: fe80::1 fc00::1 ff02::1 ::127.0.0.1
"""


def fetch(fetcher, url):
    return fetcher.fetch(Request(url=url, timeout=timedelta(seconds=5)))


@pytest.fixture
async def canary():
    """A server that must not be reached."""
    async with Origin() as server:
        server.on("/", page(b"sung"))
        yield server


async def test_no_spelling_of_an_inner_address_gets_through_as_a_seed(make_fetcher, canary):
    fetcher = make_fetcher(egress=Egress())
    for literal in INNER.split():
        with pytest.raises(OutOfScope):
            await fetch(fetcher, f"http://{literal}:{canary.port}/")
    assert canary.connections == 0


async def test_no_spelling_of_an_inner_address_gets_through_as_a_redirect(make_fetcher, origin, canary):
    fetcher = make_fetcher(egress=Egress([f"127.0.0.1:{origin.port}"]))
    for number, literal in enumerate(INNER.split()):
        location = f"http://{literal}:{canary.port}/".encode().decode("latin-1")
        with pytest.raises(OutOfScope):
            await fetch(fetcher, origin.on(f"/{number}", redirect(location)))
    assert len(origin.asked) == len(INNER.split())
    assert canary.connections == 0


async def test_no_answer_with_an_inner_address_gets_through(make_fetcher, canary):
    answers = INNER_ANSWERS.split()

    async def lookup(name):
        return ["8.8.8.8", answers[int(name.partition(".")[0])]]

    fetcher = make_fetcher(egress=Egress(lookup=lookup))
    for number in range(len(answers)):
        with pytest.raises(OutOfScope):
            await fetch(fetcher, f"http://{number}.evil.test:{canary.port}/")
    assert canary.connections == 0


async def test_robots_txt_passes_the_same_egress_check(make_fetcher, origin, canary):
    fetcher = make_fetcher(egress=Egress([f"127.0.0.1:{origin.port}"]))
    robots = Robots(fetcher, "shoal")
    with pytest.raises(OutOfScope):
        await robots.check(canary.url("/page"))
    origin.on("/robots.txt", redirect(canary.url("/")))
    assert await robots.check(origin.url("/page"))
    assert canary.connections == 0


async def test_what_is_allowed_does_get_through(make_fetcher, canary):
    for allowed in ("127.0.0.1", "localhost"):
        fetcher = make_fetcher(egress=Egress([f"{allowed}:{canary.port}"]))
        assert (await fetch(fetcher, canary.url(host=allowed))).body == b"sung"
    assert canary.connections == 2


async def test_allowing_one_host_allows_no_redirect_to_another(make_fetcher, origin, canary):
    fetcher = make_fetcher(egress=Egress([f"127.0.0.1:{origin.port}"]))
    with pytest.raises(OutOfScope, match=f"--allow-private 127.0.0.1:{canary.port}"):
        await fetch(fetcher, origin.on("/", redirect(canary.url())))
    assert canary.connections == 0


class Rebinding:
    """A resolver that returns one address first and another later."""

    def __init__(self, first, later):
        self.first, self.later, self.asked = first, later, 0

    async def __call__(self, name):
        self.asked += 1
        return [self.first if self.asked == 1 else self.later]


async def test_a_name_that_is_rebound_between_the_check_and_the_connection_gains_nothing(
    make_fetcher, canary
):
    """The checked address is the one connected to: nothing listens at it, and the canary is not reached."""
    for _ in range(5):
        lookup = Rebinding("127.0.0.2", "127.0.0.1")
        fetcher = make_fetcher(egress=Egress(["127.0.0.2/32"], lookup=lookup))
        with pytest.raises(FetchError, match="refused"):
            await fetch(fetcher, canary.url(host="rebound.test"))
        assert lookup.asked == 1
    assert canary.connections == 0


async def test_a_name_that_is_rebound_after_its_answer_grew_old_is_checked_again(
    make_fetcher, origin, canary
):
    now = [0.0]
    lookup = Rebinding("127.0.0.1", "127.0.0.3")
    fetcher = make_fetcher(egress=Egress(["127.0.0.1/32"], lookup=lookup, clock=lambda: now[0]))
    url = origin.on("/", page()).replace("127.0.0.1", "rebound.test")
    assert (await fetch(fetcher, url)).body == b"hello"
    now[0] = 59.9
    assert (await fetch(fetcher, url)).body == b"hello"
    now[0] = 60.1
    with pytest.raises(OutOfScope, match=r"127\.0\.0\.3"):
        await fetch(fetcher, url)
    assert origin.connections == 1


async def test_a_new_connection_goes_to_the_checked_address(make_fetcher, origin):
    lookup = Rebinding("127.0.0.1", "127.0.0.9")
    fetcher = make_fetcher(egress=Egress(["127.0.0.1/32"], lookup=lookup))

    async def farewell(wire):
        await wire.send(page())

    url = origin.on("/", farewell).replace("127.0.0.1", "kept.test")
    for _ in range(3):
        assert (await fetch(fetcher, url)).body == b"hello"
        await asyncio.sleep(0.01)
    assert (origin.connections, lookup.asked) == (3, 1)


async def test_wreq_is_not_believed_when_it_answers_from_another_address(origin):
    url = origin.on("/", page())
    lie = AllowedTarget(url, f"127.0.0.1:{origin.port}", "127.0.0.1", (ip_address("8.8.8.8"),), True)
    engine = WreqEngine(Limits(), "shoal", None)
    with pytest.raises(OutOfScope, match="an address that was not checked"):
        await engine.send(lie, {}, None, "POST", Request(url=url))
    await engine.close()


async def test_aiohttp_finds_no_name_that_was_not_checked():
    from shoal.fetch.http.aiohttp import PinnedResolver

    pins = PinnedResolver()
    with pytest.raises(OSError, match="have not been checked"):
        await pins.resolve("localhost", 80)
