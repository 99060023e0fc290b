"""The only exit to the network: which URLs may be fetched, and at which addresses."""

import asyncio
import re
import time
from collections.abc import Iterable
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from shoal.core.errors import DnsFailed, InvalidSetting, InvalidUrl, OutOfScope, PrivateAddress
from shoal.core.http import Proxy
from shoal.core.proxies import endpoint
from shoal.core.text import shorten
from shoal.core.urls import canonical_with_host, host_of
from shoal.fetch.dns import LIFETIME, Clock, Lookup, Resolver, system_lookup
from shoal.fetch.ip_ranges import Address, special_range
from shoal.fetch.singleflight import LruCache

MAX_HOSTS = 10_000
_ONION = re.compile(r"(^|\.)onion\.?$")  # RFC 7686: never passed to a resolver
# RFC 6761, RFC 6762 and RFC 9476, what ICANN reserves for internal networks, and what routers, clusters and
# service registries use; a name without a dot is internal too.
_INTERNAL_NAME = re.compile(
    r"(^|\.)(localhost6?|localdomain6?|local|internal|intranet|private|home\.arpa|lan|corp|home|workgroup|fritz\.box"
    r"|svc|consul|nomad|docker|kube)\.?$|^[^.]+\.?$"
)
# Public names that resolve to any address that they contain, or to this machine.
_ANY_ADDRESS = re.compile(
    r"(^|\.)(nip\.io|sslip\.io|xip\.io|traefik\.me|localtest\.me|lvh\.me|vcap\.me|lacolhost\.com|local\.gd)\.?$"
)
_PORT = re.compile(r"[^:]:[0-9]+$")  # behind a name, or an IPv6 address in brackets
CHECK_TIMEOUT = timedelta(seconds=2)  # for the lookup of a name that a proxy will resolve
RETRY_LOOKUP_AFTER = 60.0  # seconds until a name that could not be resolved is tried again


class AllowedTarget(NamedTuple):
    """A URL that may be fetched, and the only addresses that may be connected to for it."""

    url: str
    host: str  # the politeness key
    name: str  # the host without its port
    addresses: tuple[Address, ...]
    is_literal: bool  # the URL contains the address itself


class _Admitted(NamedTuple):
    name: str
    addresses: tuple[Address, ...]
    is_literal: bool
    until: float


class Egress:
    """Allows http and https at public addresses, and what the operator allowed in addition.

    `allow` holds hosts with a port ("localhost:8000"), hosts for all their ports ("localhost"), and networks
    ("10.0.0.0/8").
    """

    reaches_onions = False  # True only for Tor

    def __init__(
        self,
        allow: Iterable[str] = (),
        *,
        lookup: Lookup = system_lookup,
        lifetime: timedelta = LIFETIME,
        clock: Clock = time.monotonic,
    ) -> None:
        self.set_allowed(allow)
        self._clock = clock
        self._resolver = Resolver(lookup, clock, lifetime)
        self._internal_proxies: LruCache[bool] = LruCache(MAX_HOSTS)  # by name: whether it is internal
        self._unknown: LruCache[float] = LruCache(MAX_HOSTS)  # by host: until when it is not resolved again

    def set_allowed(self, allow: Iterable[str]) -> None:
        """Set what the operator allows in addition; raises InvalidSetting."""
        self._hosts, self._names, self._networks = _read(allow)
        self._admitted: LruCache[_Admitted] = LruCache(MAX_HOSTS)

    async def admit_request(self, url: str, proxy: Proxy | None) -> AllowedTarget:
        """Check a URL for a request that is sent through a proxy, or directly without one."""
        return await (self.admit_via(proxy, url) if proxy else self.admit(url))

    async def admit(self, url: str) -> AllowedTarget:
        """Return where a URL may be fetched; raises OutOfScope or DnsFailed."""
        href, host = read_url(url)
        known = self._admitted.get(host)
        if known is None or known.until <= self._clock():
            known = await self._resolve_and_check(host)
        return AllowedTarget(href, host, known.name, known.addresses, known.is_literal)

    def admit_unresolved(self, url: str) -> AllowedTarget:
        """Check a URL for a proxy that resolves names at its other end; raises OutOfScope.

        No name is resolved here, so only what the URL contains can be checked.
        """
        href, host = read_url(url)
        name = _name(host)
        self._check_onion(name)
        literal = _literal(name)
        if literal:
            self._check(host, (literal,))
        elif (_INTERNAL_NAME.search(name) or _ANY_ADDRESS.search(name)) and not self._is_allowed(host):
            raise PrivateAddress(host, "a name of an internal network")
        return AllowedTarget(href, host, name, (), literal is not None)

    async def admit_via(self, proxy: Proxy, url: str) -> AllowedTarget:
        """Check a URL for a request through a proxy; raises OutOfScope.

        An HTTP proxy in an internal network can reach internal hosts: names are also resolved here, if
        possible, and checked. What a SOCKS proxy or one on this machine resolves is never resolved here:
        it may lead to Tor.
        """
        target = self.admit_unresolved(url)
        if target.is_literal or self._is_allowed(target.host) or not await self._is_internal(proxy):
            return target
        if (self._unknown.get(target.host) or 0.0) > self._clock():
            return target
        try:
            async with asyncio.timeout(CHECK_TIMEOUT.total_seconds()):
                found = await self._resolver.resolve(target.name)
        except (DnsFailed, TimeoutError):
            self._unknown.put(target.host, self._clock() + RETRY_LOOKUP_AFTER)
            return target
        self._check(target.host, found.addresses)
        return target

    async def _is_internal(self, proxy: Proxy) -> bool:
        """Tell whether a proxy is an HTTP proxy in an internal network; False if it cannot be resolved."""
        if not proxy.url.startswith("http"):
            return False
        known = self._internal_proxies.get(proxy.name)
        if known is None:
            name, _ = endpoint(proxy)
            literal = _literal(name)
            try:
                addresses = (literal,) if literal else (await self._resolver.resolve(name)).addresses
            except DnsFailed:
                return False
            is_internal = any(special_range(address) and not address.is_loopback for address in addresses)
            known = self._internal_proxies.put(proxy.name, is_internal)
        return known

    async def close(self) -> None:
        """Stop resolving names."""
        await self._resolver.close()

    async def _resolve_and_check(self, host: str) -> _Admitted:
        name = _name(host)
        self._check_onion(name)
        if literal := _literal(name):
            known = _Admitted(name, (literal,), True, float("inf"))
        else:
            resolved = await self._resolver.resolve(name)
            known = _Admitted(name, resolved.addresses, False, resolved.until)
        self._check(host, known.addresses)
        return self._admitted.put(host, known)

    def _check_onion(self, name: str) -> None:
        if _ONION.search(name) and not self.reaches_onions:
            raise OutOfScope(f"{shorten(name)} is an onion service, which only Tor reaches: --tor on")

    def _is_allowed(self, host: str) -> bool:
        return host in self._hosts or _name(host) in self._names

    def _check(self, host: str, addresses: Iterable[Address]) -> None:
        # One internal address among public ones rejects all: public sites never mix them, DNS rebinding does.
        if self._is_allowed(host):
            return
        for address in addresses:
            kind = special_range(address)
            if kind and not any(address in network for network in self._networks):
                raise PrivateAddress(host, f"at {address}, {kind} address")


def read_url(url: str) -> tuple[str, str]:
    """Return the canonical URL and its host; raises OutOfScope."""
    try:
        return canonical_with_host(url)
    except InvalidUrl as exc:
        raise OutOfScope(str(exc)) from exc


Networks = tuple[IPv4Network | IPv6Network, ...]


def _read(allow: Iterable[str]) -> tuple[frozenset[str], frozenset[str], Networks]:
    """Split the allowed entries into hosts with a port, names for all ports, and networks.

    Raises InvalidSetting.
    """
    hosts: set[str] = set()
    names: set[str] = set()
    networks: list[IPv4Network | IPv6Network] = []
    for entry in allow:
        try:
            if "/" in entry:
                networks.append(ip_network(entry))
            elif "*" in entry:  # legal in a host name, but never what is meant
                raise ValueError(entry)
            elif _PORT.search(entry):
                # A host's key omits the default port of its scheme.
                hosts.update((host_of(f"http://{entry}/"), host_of(f"https://{entry}/")))
            else:
                names.add(_name(host_of(f"http://{entry}/")))
        except (ValueError, InvalidUrl) as exc:
            raise InvalidSetting(
                "allow-private", f"takes a host, host:port or network such as 10.0.0.0/8, not {entry!r}"
            ) from exc
    return frozenset(hosts), frozenset(names), tuple(networks)


def _name(host: str) -> str:
    if host.startswith("["):
        return host[: host.index("]") + 1]
    return host.partition(":")[0]


def _literal(name: str) -> Address | None:
    try:
        return ip_address(name.strip("[]"))
    except ValueError:
        return None
