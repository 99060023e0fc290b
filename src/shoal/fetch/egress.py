"""The only door to the network: which URLs may be asked, and at which addresses."""

import asyncio
import re
import time
from collections.abc import Iterable
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from shoal.core.errors import DnsFailed, InvalidSetting, InvalidUrl, OutOfScope, shorten
from shoal.core.exchange import Way
from shoal.core.urls import canonical_with_host, host_of
from shoal.core.ways import endpoint
from shoal.fetch.address import Address, oddity
from shoal.fetch.names import LIFETIME, Clock, Lookup, Names, system_lookup
from shoal.fetch.shared import Shelf

MOST_HOSTS = 10_000
_ONION = re.compile(r"(^|\.)onion\.?$")  # RFC 7686: never asked of a resolver
# RFC 6761, RFC 6762 and RFC 9476, what ICANN keeps for inner networks, and what routers, clusters and service
# registries use; a name without a dot is inner too.
_INNER_NAME = re.compile(
    r"(^|\.)(localhost|localdomain|local|internal|intranet|private|home\.arpa|lan|corp|home|workgroup|fritz\.box"
    r"|svc|consul|nomad|docker|kube)\.?$|^[^.]+\.?$"
)
# Public names that resolve to whatever address stands in them, or to this machine.
_ANY_ADDRESS = re.compile(
    r"(^|\.)(nip\.io|sslip\.io|xip\.io|traefik\.me|localtest\.me|lvh\.me|vcap\.me|lacolhost\.com|local\.gd)\.?$"
)
CHECK_TIMEOUT = 2.0  # seconds that a name may take to be looked up where a proxy will resolve it
UNKNOWN_FOR = 60.0  # seconds in which a name that could not be looked up is not tried again


class Target(NamedTuple):
    """A URL that may be asked, and the addresses that may be connected to for it: these and no others."""

    url: str
    host: str  # the politeness key
    name: str  # the host without its port
    addresses: tuple[Address, ...]
    is_literal: bool  # the URL spells the address itself


class _Admitted(NamedTuple):
    name: str
    addresses: tuple[Address, ...]
    is_literal: bool
    until: float


class Egress:
    """Admits http and https at public addresses, and what the operator allowed besides.

    `allow` holds hosts as `urls.host_of` spells them ("localhost:8000"), and networks ("10.0.0.0/8").
    """

    reaches_onions = False  # which only Tor does

    def __init__(
        self,
        allow: Iterable[str] = (),
        *,
        lookup: Lookup = system_lookup,
        lifetime: timedelta = LIFETIME,
        clock: Clock = time.monotonic,
    ) -> None:
        self._hosts, self._networks = _read(allow)
        self._clock = clock
        self._names = Names(lookup, clock, lifetime)
        self._admitted: Shelf[_Admitted] = Shelf(MOST_HOSTS)
        self._inner_ways: Shelf[bool] = Shelf(MOST_HOSTS)  # by name: whether a proxy is at an inner address
        self._unknown: Shelf[float] = Shelf(MOST_HOSTS)  # by host: until when it is not looked up

    async def admit(self, url: str) -> Target:
        """Return where a URL may be asked; raises OutOfScope or DnsFailed."""
        try:
            href, host = canonical_with_host(url)
        except InvalidUrl as exc:
            raise OutOfScope(str(exc)) from exc
        known = self._admitted.get(host)
        if known is None or known.until <= self._clock():
            known = await self._look_closely(host)
        return Target(href, host, known.name, known.addresses, known.is_literal)

    def admit_beyond(self, url: str) -> Target:
        """Return what may be asked by a way that resolves names at its other end; raises OutOfScope.

        No name is resolved here, so only what a URL spells can be checked.
        """
        try:
            href, host = canonical_with_host(url)
        except InvalidUrl as exc:
            raise OutOfScope(str(exc)) from exc
        name = _name(host)
        self._check_onion(name)
        literal = _literal(name)
        if literal:
            self._check(host, (literal,))
        elif (_INNER_NAME.search(name) or _ANY_ADDRESS.search(name)) and host not in self._hosts:
            raise OutOfScope(
                f"{host} is a name of an inner network, which is not asked unless you say so: "
                f"--allow-private {host}"
            )
        return Target(href, host, name, (), literal is not None)

    async def admit_by(self, way: Way, url: str) -> Target:
        """Return what may be asked by a proxy; raises OutOfScope.

        An HTTP proxy in an inner network can reach what is inner: names for it are looked up here as well, as
        far as that is possible, and checked. What a SOCKS proxy or one on this machine resolves is never
        looked up: it may lead to Tor.
        """
        target = self.admit_beyond(url)
        if target.is_literal or target.host in self._hosts or not await self._is_inner(way):
            return target
        if (self._unknown.get(target.host) or 0.0) > self._clock():
            return target
        try:
            async with asyncio.timeout(CHECK_TIMEOUT):
                found = await self._names.resolve(target.name)
        except (DnsFailed, TimeoutError):
            self._unknown.put(target.host, self._clock() + UNKNOWN_FOR)
            return target
        self._check(target.host, found.addresses)
        return target

    async def _is_inner(self, way: Way) -> bool:
        """Tell whether a proxy is one for HTTP in an inner network; one that is not found is none."""
        if not way.url.startswith("http"):
            return False
        known = self._inner_ways.get(way.name)
        if known is None:
            name, _ = endpoint(way)
            literal = _literal(name)
            try:
                addresses = (literal,) if literal else (await self._names.resolve(name)).addresses
            except DnsFailed:
                return False
            is_inner = any(oddity(address) and not address.is_loopback for address in addresses)
            known = self._inner_ways.put(way.name, is_inner)
        return known

    async def close(self) -> None:
        """Stop resolving names."""
        await self._names.close()

    async def _look_closely(self, host: str) -> _Admitted:
        name = _name(host)
        self._check_onion(name)
        if literal := _literal(name):
            known = _Admitted(name, (literal,), True, float("inf"))
        else:
            answer = await self._names.resolve(name)
            known = _Admitted(name, answer.addresses, False, answer.until)
        self._check(host, known.addresses)
        return self._admitted.put(host, known)

    def _check_onion(self, name: str) -> None:
        if _ONION.search(name) and not self.reaches_onions:
            raise OutOfScope(f"{shorten(name)} is an onion service, which only Tor reaches: --tor on")

    def _check(self, host: str, addresses: Iterable[Address]) -> None:
        # One inner address among outer ones refuses them all: public sites do not mix them, rebinding does.
        if host in self._hosts:
            return
        for address in addresses:
            kind = oddity(address)
            if kind and not any(address in network for network in self._networks):
                raise OutOfScope(
                    f"{host} is at {address}, {kind} address, which is not asked unless you say so: "
                    f"--allow-private {host}"
                )


Networks = tuple[IPv4Network | IPv6Network, ...]


def _read(allow: Iterable[str]) -> tuple[frozenset[str], Networks]:
    """Sort what is allowed into hosts and networks; raises InvalidSetting."""
    hosts: set[str] = set()
    networks: list[IPv4Network | IPv6Network] = []
    for entry in allow:
        try:
            if "/" in entry:
                networks.append(ip_network(entry))
            elif "*" in entry:  # which a host's name may hold, but nobody means it so
                raise ValueError(entry)
            else:
                # The default port of either scheme is left out of a host's key.
                hosts.update((host_of(f"http://{entry}/"), host_of(f"https://{entry}/")))
        except (ValueError, InvalidUrl) as exc:
            raise InvalidSetting(
                "allow-private", f"takes a host, host:port or network such as 10.0.0.0/8, not {entry!r}"
            ) from exc
    return frozenset(hosts), tuple(networks)


def _name(host: str) -> str:
    if host.startswith("["):
        return host[: host.index("]") + 1]
    return host.partition(":")[0]


def _literal(name: str) -> Address | None:
    try:
        return ip_address(name.strip("[]"))
    except ValueError:
        return None
