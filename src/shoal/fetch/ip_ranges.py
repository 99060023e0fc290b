"""Which IP addresses are public, and what the others are."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address

# From IANA's registries: Python's own `is_global` differs between patch releases, and includes multicast.
_SPECIAL_V4 = tuple(
    (IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "an unspecified"),
        ("10.0.0.0/8", "a private"),
        ("100.64.0.0/10", "a carrier's shared"),
        ("127.0.0.0/8", "a loopback"),
        ("168.63.129.16/32", "a cloud provider's internal"),
        ("169.254.0.0/16", "a link-local"),
        ("172.16.0.0/12", "a private"),
        ("192.0.0.0/24", "a reserved"),
        ("192.0.2.0/24", "a documentation"),
        ("192.88.99.0/24", "a reserved"),
        ("192.168.0.0/16", "a private"),
        ("198.18.0.0/15", "a benchmarking"),
        ("198.51.100.0/24", "a documentation"),
        ("203.0.113.0/24", "a documentation"),
        ("224.0.0.0/4", "a multicast"),
        ("240.0.0.0/4", "a reserved"),
    )
)
_SPECIAL_V6 = tuple(
    (IPv6Network(network), kind)
    for network, kind in (
        ("::/128", "an unspecified"),
        ("::1/128", "a loopback"),
        ("64:ff9b:1::/48", "a private"),
        ("2001::/23", "a reserved"),
        ("2001:db8::/32", "a documentation"),
        ("3fff::/20", "a documentation"),
        ("fc00::/7", "a private"),
        ("fe80::/10", "a link-local"),
        ("fec0::/10", "a private"),
        ("ff00::/8", "a multicast"),
    )
)
_GLOBAL_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")


def special_range(address: Address) -> str | None:
    """Return the kind of a special address, with its article; None for a public unicast one."""
    for inner in _unwrap(address):
        if kind := _kind(inner):
            return kind
    return None


def _unwrap(address: Address) -> Iterator[Address]:
    """Yield the addresses that packets to this one are delivered to."""
    if isinstance(address, IPv4Address):
        yield address
    elif address.ipv4_mapped:
        yield address.ipv4_mapped
    elif address in _NAT64:
        yield IPv4Address(int(address) & 0xFFFFFFFF)
    elif address.sixtofour:
        yield address.sixtofour
    elif address.teredo:
        yield from address.teredo
    else:
        yield address


def _kind(address: Address) -> str | None:
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in _SPECIAL_V4 if address in network), None)
    special = next((kind for network, kind in _SPECIAL_V6 if address in network), None)
    return special or (None if address in _GLOBAL_V6 else "a reserved")
