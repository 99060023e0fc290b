"""Which URLs may be fetched, and at which addresses."""

import asyncio
from datetime import timedelta
from ipaddress import ip_address
from itertools import product

import pytest

from shoal.core.errors import DnsFailed, InvalidSetting, OutOfScope, PrivateAddress
from shoal.core.http import Proxy
from shoal.fetch.egress import Egress

INNER_LITERALS = """
    127.0.0.1 127.1 127.0.1 2130706433 0x7f000001 0x7f.1 0x7f.0.0.1 0177.0.0.1 017700000001 0177.1 0X7F.0X1
    127.0.0.1. 127.1. %31%32%37.0.0.1 \uff11\uff12\uff17.0.0.1 127。0。0。1 ①②⑦.⓪.⓪.① 0 0.0.0.0 0x0 00
    10.0.0.1 0xa.1 012.0.0.1 167772161 172.16.0.1 192.168.1.1 0xc0a80101 3232235777 192.168.257
    169.254.169.254 2852039166 0xa9fea9fe 0251.0376.0251.0376 100.64.0.1 100.100.100.200 168.63.129.16
    192.0.0.192 192.0.2.1 198.18.0.1 198.51.100.7 203.0.113.9 224.0.0.1 239.255.255.250 240.0.0.1
    255.255.255.255 4294967295 [::] [::1] [0:0:0:0:0:0:0:1] [::0001] [::127.0.0.1] [::7f00:1]
    [::ffff:127.0.0.1] [::ffff:7f00:1] [::FFFF:127.0.0.1] [0:0:0:0:0:ffff:127.0.0.1] [::ffff:10.0.0.1]
    [::ffff:0:127.0.0.1] [64:ff9b::127.0.0.1] [64:ff9b::7f00:1] [64:ff9b::a9fe:a9fe] [64:ff9b:1::7f00:1]
    [2002:7f00:1::] [2002:a00:1::1] [2002:a9fe:a9fe::1] [2001:0:808:808::f5ff:fffe] [fe80::1] [fc00::1]
    [fd00:ec2::254] [fec0::1] [ff02::1] [2001:db8::1] [3fff::1] [100::1] [5f00::1] [2001:10::1]
"""

INNER_ANSWERS = """
    127.0.0.1 10.0.0.1 192.168.0.1 169.254.169.254 100.64.0.1 0.0.0.0 ::1 ::ffff:127.0.0.1 fe80::1 fc00::1
    64:ff9b::7f00:1 64:ff9b:1::1 2002:7f00:1:: 224.0.0.1 255.255.255.255 fe80::1%2 192.0.2.1 2001:db8::1
"""

NOT_URLS = """
    file:///etc/passwd ftp://example.com/ gopher://127.0.0.1/ dict://127.0.0.1:11211/ javascript:alert(1)
    data:text/html,x ws://example.com/ http:// http://[fe80::1%25eth0]/ http://user:pass@example.com/
    http://127.0.0.1:99999/ http://1.2.3.4.5/ http://256.256.256.256/ http://0x100000000/
    //example.com/ example.com
"""


def zone(*addresses):
    async def lookup(name):
        return addresses

    return lookup


async def nobody(name):
    raise AssertionError(f"{name} was looked up")


async def test_an_inner_address_is_refused_however_it_is_spelled():
    egress = Egress(lookup=nobody)
    for literal in INNER_LITERALS.split():
        for scheme in ("http", "https"):
            with pytest.raises(PrivateAddress, match="--allow-private"):
                pytest.fail(str(await egress.admit(f"{scheme}://{literal}:8080/path?query")))


@pytest.mark.parametrize("url", NOT_URLS.split())
async def test_what_is_no_web_url_is_refused(url):
    with pytest.raises(OutOfScope, match="Cannot fetch URL") as refused:
        await Egress(lookup=nobody).admit(url)
    assert not isinstance(refused.value, PrivateAddress)  # no option allows it


@pytest.mark.parametrize("literal", ["8.8.8.8", "[2606:4700::1111]", "134744072", "0x8.0x8.0x8.0x8"])
async def test_a_public_address_is_admitted_without_a_lookup(literal):
    target = await Egress(lookup=nobody).admit(f"http://{literal}/")
    assert target.is_literal
    assert str(target.addresses[0]) in target.url


async def test_a_name_with_an_inner_address_is_refused():
    for answer in INNER_ANSWERS.split():
        with pytest.raises(PrivateAddress, match=r"rebound\.test is at .* --allow-private rebound\.test$"):
            pytest.fail(str(await Egress(lookup=zone(answer)).admit("http://rebound.test/")))


@pytest.mark.parametrize("answers", [("8.8.8.8", "127.0.0.1"), ("::1", "8.8.8.8"), ("8.8.8.8", "fc00::1")])
async def test_one_inner_address_among_public_ones_refuses_them_all(answers):
    with pytest.raises(OutOfScope):
        await Egress(lookup=zone(*answers)).admit("http://mixed.test/")


async def test_a_name_with_public_addresses_is_admitted_at_these():
    target = await Egress(lookup=zone("8.8.8.8", "2606:4700::1")).admit("HTTP://Shop.Test:8080/a#b")
    assert target == (
        "http://shop.test:8080/a",
        "shop.test:8080",
        "shop.test",
        (ip_address("8.8.8.8"), ip_address("2606:4700::1")),
        False,
    )


@pytest.mark.parametrize(
    ("allowed", "url"),
    [
        ("127.0.0.1:8000", "http://127.0.0.1:8000/"),
        ("127.0.0.1:8000", "http://0x7f.1:8000/"),
        ("127.0.0.1", "https://127.0.0.1/"),
        ("127.0.0.1:443", "https://127.0.0.1/"),
        ("127.0.0.0/8", "http://127.9.9.9:1234/"),
        ("localhost", "http://localhost/"),
        ("Localhost:81", "http://localhost:81/"),
        ("[::1]:8000", "http://[::1]:8000/"),
        ("::/0", "http://[::1]:8000/"),
        ("bücher.test", "http://xn--bcher-kva.test/"),
        ("10.1.2.3/32", "http://intra.test/"),
        ("intra.test", "http://intra.test/"),
        ("127.0.0.1", "http://127.0.0.1:6379/"),
        ("intra.test", "http://intra.test:8080/"),
        ("[::1]", "http://[::1]:8000/"),
    ],
)
async def test_what_the_operator_allows_is_admitted(allowed, url):
    inner = Egress([allowed], lookup=zone("10.1.2.3"))
    assert (await inner.admit(url)).addresses
    with pytest.raises(OutOfScope):
        await Egress(lookup=zone("10.1.2.3")).admit(url)


@pytest.mark.parametrize(
    ("allowed", "url"),
    [
        ("127.0.0.1:8000", "http://127.0.0.1:8001/"),
        ("127.0.0.1:8000", "http://127.0.0.1/"),
        ("127.0.0.1:80", "http://127.0.0.1:6379/"),
        ("127.0.0.1", "http://127.0.0.2/"),
        ("127.0.0.1", "http://localhost/"),
        ("intra.test", "http://sub.intra.test/"),
        ("intra.test", "http://intra.test.evil.test/"),
        ("intra.test:80", "http://intra.test:8080/"),
        ("[::1]:8000", "http://[::1]:8001/"),
        ("10.0.0.0/24", "http://intra.test/"),
    ],
)
async def test_what_lies_beside_it_stays_refused(allowed, url):
    with pytest.raises(OutOfScope):
        await Egress([allowed], lookup=zone("10.1.2.3")).admit(url)


@pytest.mark.parametrize(
    "entry", ["", "http://a/", "10.0.0.1/8", "a b", "10.0.0.0/33", "*.intra.test", "host:port"]
)
def test_what_cannot_be_allowed_is_said_at_once(entry):
    with pytest.raises(InvalidSetting, match="allow-private takes a host, host:port or network"):
        Egress([entry])


async def test_an_answer_that_changes_is_checked_again():
    answers, now = ["8.8.8.8"], [0.0]

    async def lookup(name):
        return answers

    egress = Egress(lookup=lookup, lifetime=timedelta(seconds=60), clock=lambda: now[0])
    assert (await egress.admit("http://rebound.test/")).addresses == (ip_address("8.8.8.8"),)
    answers[:] = ["127.0.0.1"]
    assert (await egress.admit("http://rebound.test/")).addresses == (ip_address("8.8.8.8"),)
    now[0] = 60
    with pytest.raises(OutOfScope):
        await egress.admit("http://rebound.test/")


async def test_a_name_is_looked_up_once_for_all_its_ports_and_schemes():
    asked = []

    async def lookup(name):
        asked.append(name)
        return ["8.8.8.8"]

    egress = Egress(lookup=lookup)
    urls = [f"{scheme}://a.test:{port}/" for scheme in ("http", "https") for port in (80, 443, 8080)]
    targets = await asyncio.gather(*map(egress.admit, urls))
    assert asked == ["a.test"]
    assert len({id(target.addresses) for target in targets}) == 1


async def test_a_name_that_does_not_resolve_is_no_matter_of_scope():
    with pytest.raises(DnsFailed):
        await Egress(lookup=zone()).admit("http://nowhere.test/")


INNER_NAMES = """
    kubernetes.default.svc vault.prod.svc:8200 localhost.localdomain nas.localdomain grafana.private
    x.service.consul fritz.box www.fritz.box 127.0.0.1.nip.io 10.0.0.5.sslip.io 10-0-0-5.sslip.io lvh.me
    a.localtest.me host.docker.internal intranet db.lan metadata.google.internal printer.local
    localhost localhost. localhost6 localhost6.localdomain6
"""


async def test_a_proxy_is_not_asked_for_a_name_of_an_inner_network():
    for host, proxy in product(INNER_NAMES.split(), (INSIDE, OUTSIDE, SOCKS)):
        with pytest.raises(OutOfScope, match="internal network"):
            pytest.fail(str(await Egress(lookup=nobody).admit_via(proxy, f"http://{host}/")))
        assert (await Egress([host], lookup=nobody).admit_via(proxy, f"http://{host}/")).addresses == ()


@pytest.mark.parametrize(
    "host", ["fritz.box.example.com", "svc.example.com", "nip.io.example.com", "mylocal.com"]
)
async def test_a_name_that_only_looks_like_an_inner_one_is_asked_for(host):
    assert (await Egress(lookup=nobody).admit_via(OUTSIDE, f"http://{host}/")).name == host


INSIDE = Proxy(name="inside", url="http://user:word@10.0.0.9:3128")
OUTSIDE = Proxy(name="outside", url="http://8.8.4.4:3128")
LOCAL = Proxy(name="local", url="http://127.0.0.1:8118")
SOCKS = Proxy(name="socks", url="socks5h://10.0.0.9:1080")


async def test_a_name_for_a_proxy_in_an_inner_network_is_looked_up_here_as_well():
    egress = Egress(lookup=zone("10.1.2.3"))
    with pytest.raises(PrivateAddress, match=r"rebound.test is at 10.1.2.3, a private address"):
        await egress.admit_via(INSIDE, "https://rebound.test/")
    assert (await Egress(lookup=zone("8.8.8.8")).admit_via(INSIDE, "https://shop.test/")).addresses == ()
    assert await Egress(["rebound.test"], lookup=zone("10.1.2.3")).admit_via(INSIDE, "https://rebound.test/")
    assert await Egress(["10.0.0.0/8"], lookup=zone("10.1.2.3")).admit_via(INSIDE, "https://rebound.test/")


async def test_a_name_that_only_the_proxy_can_look_up_is_left_to_it_and_not_tried_each_time():
    asked = []

    async def lookup(name):
        asked.append(name)
        raise OSError("no resolver")

    egress = Egress(lookup=lookup)
    for _ in range(3):
        assert (await egress.admit_via(INSIDE, "https://shop.test/")).name == "shop.test"
    assert asked == ["shop.test"]


@pytest.mark.parametrize("proxy", [OUTSIDE, LOCAL, SOCKS], ids=lambda proxy: proxy.name)
async def test_for_other_proxies_no_name_is_looked_up(proxy):
    assert (await Egress(lookup=nobody).admit_via(proxy, "https://shop.test/")).addresses == ()
