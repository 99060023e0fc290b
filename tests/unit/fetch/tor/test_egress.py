"""Onion services are only reached through Tor, and a run with Tor connects to nothing directly."""

import pytest

from shoal.core.errors import OutOfScope
from shoal.fetch.egress import Egress
from shoal.fetch.tor.fetcher import TorEgress

ONIONS = [
    f"http://{'a' * 56}.onion/",
    "https://www.short.onion:8443/x",
    "http://SHOUT.ONION/",
    "http://x.onion./",
]


@pytest.fixture
def asked():
    return []


@pytest.fixture
def lookup(asked):
    async def look(name):
        asked.append(name)
        return ["8.8.8.8"]

    return look


@pytest.mark.parametrize("url", ONIONS)
async def test_no_resolver_is_asked_for_an_onion_service(url, lookup, asked):
    egress = Egress(lookup=lookup)
    with pytest.raises(OutOfScope, match=r"only Tor reaches: --tor on"):
        await egress.admit(url)
    with pytest.raises(OutOfScope, match="only Tor reaches"):
        egress.admit_unresolved(url)  # a proxy would ask one
    assert asked == []


@pytest.mark.parametrize("url", ["http://onion.test/", "http://notonion/x", "http://a.onions.test/"])
async def test_a_name_that_only_looks_like_one_is_a_name(url, lookup, asked):
    await Egress(["notonion"], lookup=lookup).admit(url)
    assert len(asked) == 1


@pytest.mark.parametrize("url", ONIONS)
def test_tor_reaches_onion_services(url):
    assert TorEgress().admit_unresolved(url).addresses == ()


@pytest.mark.parametrize("url", [*ONIONS, "http://shop.test/", "http://8.8.8.8/"])
async def test_nothing_is_asked_directly_in_a_run_by_tor(url, lookup, asked):
    with pytest.raises(OutOfScope, match="Direct connections"):
        await TorEgress(lookup=lookup).admit(url)
    assert asked == []


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "http://10.0.0.1/", "http://localhost/", "http://[::1]/"]
)
def test_tor_does_not_reach_private_networks(url):
    with pytest.raises(OutOfScope):
        TorEgress().admit_unresolved(url)
