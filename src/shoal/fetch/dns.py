"""Resolves host names with the system's resolver, caches the result, and shares concurrent lookups."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from ipaddress import ip_address
from typing import NamedTuple

from shoal.core.errors import DnsFailed, NoSuchHost
from shoal.core.model import MINUTE, SECOND
from shoal.core.tasks import in_daemon_thread
from shoal.fetch.ip_ranges import Address
from shoal.fetch.singleflight import LruCache, SingleFlight

Clock = Callable[[], float]
Lookup = Callable[[str], Awaitable[Sequence[str]]]

LIFETIME = MINUTE
FAILURE_LIFETIME = 5 * SECOND
MAX_NAMES = 10_000
MAX_LOOKUPS = 32  # concurrent
MAX_ADDRESSES = 16  # of one name; more are not needed


class Resolved(NamedTuple):
    """The addresses of a name, or why it has none, and when that expires.

    `exists` is False if the resolver says that there is no such name, and it has never had addresses here.
    """

    addresses: tuple[Address, ...]
    failure: str | None
    until: float
    exists: bool = True
    was_found: bool = False  # it has had addresses


class Resolver:
    """Resolves names; a result is cached for a minute, a failure for a few seconds."""

    def __init__(self, lookup: Lookup, clock: Clock, lifetime: timedelta = LIFETIME) -> None:
        self._lookup, self._clock, self._lifetime = lookup, clock, lifetime
        self._cached: LruCache[Resolved] = LruCache(MAX_NAMES)
        self._lookups: SingleFlight[Resolved] = SingleFlight()
        self._slots = asyncio.Semaphore(MAX_LOOKUPS)

    async def resolve(self, name: str) -> Resolved:
        """Return the addresses of a name; raises DnsFailed, or NoSuchHost if a later lookup will not help."""
        resolved = self._cached.get(name)
        if resolved is None or resolved.until <= self._clock():
            resolved = await self._lookups.do(name, lambda: self._resolve(name))
        if resolved.failure:
            raise DnsFailed(resolved.failure) if resolved.exists else NoSuchHost(resolved.failure)
        return resolved

    async def close(self) -> None:
        """Cancel lookups in progress."""
        await self._lookups.close()

    async def _resolve(self, name: str) -> Resolved:
        exists = True
        async with self._slots:
            try:
                texts = await self._lookup(name)
                found = tuple(dict.fromkeys(map(ip_address, texts[:MAX_ADDRESSES])))
                failure = None if found else "it has no address"
            except (OSError, ValueError) as exc:
                found, failure = (), getattr(exc, "strerror", None) or str(exc)
                exists = not (isinstance(exc, socket.gaierror) and exc.errno == socket.EAI_NONAME)
        return self._cache(name, found, failure, exists)

    def _cache(self, name: str, found: tuple[Address, ...], failure: str | None, exists: bool) -> Resolved:
        before = self._cached.get(name)
        # A name that has had addresses exists: the resolver is wrong now, or was changed.
        was_found = bool(found or (before and before.was_found))
        if before and set(before.addresses) == set(found):
            found = before.addresses  # the same object, by which existing connections are recognised
        lifetime = FAILURE_LIFETIME if failure else self._lifetime
        text = failure and f"The name {name!r} could not be resolved: {failure}"
        until = self._clock() + lifetime.total_seconds()
        return self._cached.put(name, Resolved(found, text, until, exists or was_found, was_found))


async def system_lookup(name: str) -> Sequence[str]:
    """Resolve a name with the system's resolver; raises OSError."""
    return await in_daemon_thread("shoal-dns", _addresses, name, socket.AI_ADDRCONFIG)


def _addresses(name: str, flags: int) -> list[str]:
    try:
        # As bytes: for str, Python would apply its own, older rules for international names.
        rows = socket.getaddrinfo(name.encode(), None, type=socket.SOCK_STREAM, flags=flags)
    except socket.gaierror as exc:
        if exc.errno == socket.EAI_NONAME and flags:
            # With this flag a machine without a network says so of every name. Without it, a resolver that
            # cannot be reached is EAI_AGAIN.
            return _addresses(name, 0)
        raise
    return [str(row[4][0]) for row in rows]
