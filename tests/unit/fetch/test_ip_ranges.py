"""Which addresses are public."""

from ipaddress import ip_address, ip_network

from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.fetch.ip_ranges import special_range

PUBLIC = """
    1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.1 168.63.129.15
    169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 191.255.255.255 192.0.1.0 192.167.255.255
    192.169.0.0 198.17.255.255 198.20.0.0 203.0.112.255 223.255.255.255
    2606:4700::1111 2001:200::1 2a00:1450:4001::1 2001:4860:4860::8888 2003::1 3ffe::1
    ::ffff:8.8.8.8 64:ff9b::808:808 2002:808:808::1
"""

ODD = {
    "an unspecified": "0.0.0.0 0.1.2.3 0.255.255.255 :: ::ffff:0.0.0.0 64:ff9b::",
    "a loopback": "127.0.0.1 127.255.255.254 127.1.2.3 ::1 ::ffff:127.0.0.1 64:ff9b::7f00:1 2002:7f00:1::",
    "a private": (
        "10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 192.168.255.255 fc00::1 fd00:ec2::254 "
        "fec0::1 64:ff9b:1::a00:1 64:ff9b:1::808:808 ::ffff:10.0.0.1 64:ff9b::192.168.0.1 2002:c0a8:1::1"
    ),
    "a carrier's shared": "100.64.0.1 100.100.100.200 100.127.255.255 ::ffff:100.64.0.1",
    "a link-local": "169.254.169.254 169.254.0.1 fe80::1 febf::1 ::ffff:169.254.169.254 2002:a9fe:a9fe::",
    "a documentation": "192.0.2.1 198.51.100.1 203.0.113.1 2001:db8::1 3fff::1",
    "a benchmarking": "198.18.0.1 198.19.255.255",
    "a multicast": "224.0.0.1 224.0.1.1 239.255.255.250 ff02::1 ff0e::1",
    "a reserved": (
        "192.0.0.1 192.0.0.192 192.88.99.1 240.0.0.1 255.255.255.255 2001:2::1 2001:10::1 2001:1ff::1 100::1 "
        "5f00::1 4000::1 8000::1 ::7f00:1 ::ffff:0:7f00:1 1::1"
    ),
    "a cloud provider's internal": "168.63.129.16 ::ffff:168.63.129.16",
}


def test_a_public_address_is_not_odd():
    assert {text: special_range(ip_address(text)) for text in PUBLIC.split()} == dict.fromkeys(PUBLIC.split())


def test_every_other_address_is_called_by_its_kind():
    for kind, texts in ODD.items():
        found = {text: special_range(ip_address(text)) for text in texts.split()}
        assert found == dict.fromkeys(texts.split(), kind)


def test_a_teredo_address_is_as_odd_as_its_server_and_its_client():
    def teredo(server, client):
        hidden = int(ip_address(client)) ^ 0xFFFFFFFF
        return ip_address(0x20010000 << 96 | int(ip_address(server)) << 64 | hidden)

    assert special_range(teredo("8.8.8.8", "1.1.1.1")) is None
    assert special_range(teredo("8.8.8.8", "10.0.0.1")) == "a private"
    assert special_range(teredo("127.0.0.1", "1.1.1.1")) == "a loopback"


@settings(deadline=None, database=None)
@given(st.integers(0, 2**32 - 1))
def test_an_address_in_a_wrapping_is_as_odd_as_without_it(number):
    plain = special_range(ip_address(number))
    assert special_range(ip_address(0xFFFF << 32 | number)) == plain
    assert special_range(ip_address(int(ip_address("64:ff9b::")) | number)) == plain
    assert special_range(ip_address(0x2002 << 112 | number << 80)) == plain


@settings(deadline=None, database=None)
@given(st.integers(0, 2**128 - 1))
def test_no_address_outside_the_global_unicast_range_is_public(number):
    address = ip_address(number)
    if address.version == 6 and address not in ip_network("2000::/3") and not address.ipv4_mapped:
        assert special_range(address) or address in ip_network("64:ff9b::/96")


@settings(deadline=None, database=None)
@given(st.integers(0, 2**32 - 1))
def test_whatever_python_calls_private_is_odd(number):
    address = ip_address(number)
    if not address.is_global or address.is_multicast or address.is_reserved:
        assert special_range(address)
