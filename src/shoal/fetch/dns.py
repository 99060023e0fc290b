"""Resolves host names with the system's resolver, caches the result, and shares concurrent lookups."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from ipaddress import ip_address
from typing import NamedTuple

from shoal.core.errors import DnsFailed
from shoal.core.model import MINUTE, SECOND
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
    """The addresses of a name, or why it has none, and when that expires."""

    addresses: tuple[Address, ...]
    failure: str | None
    until: float


class Resolver:
    """Resolves names; a result is cached for a minute, a failure for a few seconds."""

    def __init__(self, lookup: Lookup, clock: Clock, lifetime: timedelta = LIFETIME) -> None:
        self._lookup, self._clock, self._lifetime = lookup, clock, lifetime
        self._cached: LruCache[Resolved] = LruCache(MAX_NAMES)
        self._lookups: SingleFlight[Resolved] = SingleFlight()
        self._slots = asyncio.Semaphore(MAX_LOOKUPS)

    async def resolve(self, name: str) -> Resolved:
        """Return the addresses of a name; raises DnsFailed."""
        resolved = self._cached.get(name)
        if resolved is None or resolved.until <= self._clock():
            resolved = await self._lookups.do(name, lambda: self._resolve(name))
        if resolved.failure:
            raise DnsFailed(resolved.failure)
        return resolved

    async def close(self) -> None:
        """Cancel lookups in progress."""
        await self._lookups.close()

    async def _resolve(self, name: str) -> Resolved:
        async with self._slots:
            try:
                texts = await self._lookup(name)
                found = tuple(dict.fromkeys(map(ip_address, texts[:MAX_ADDRESSES])))
                failure = None if found else "it has no address"
            except (OSError, ValueError) as exc:
                found, failure = (), _reason(exc)
        return self._cache(name, found, failure)

    def _cache(self, name: str, found: tuple[Address, ...], failure: str | None) -> Resolved:
        before = self._cached.get(name)
        if before and set(before.addresses) == set(found):
            found = before.addresses  # the same object, by which existing connections are recognised
        lifetime = FAILURE_LIFETIME if failure else self._lifetime
        text = failure and f"The name {name!r} could not be resolved: {failure}"
        return self._cached.put(name, Resolved(found, text, self._clock() + lifetime.total_seconds()))


async def system_lookup(name: str) -> Sequence[str]:
    """Resolve a name with the system's resolver; raises OSError."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[list[str]] = loop.create_future()
    # A daemon thread: a lookup may hang for half a minute, and must not delay the end of the process.
    threading.Thread(target=_look_up, args=(name, loop, future), name="shoal-dns", daemon=True).start()
    return await future


def _look_up(name: str, loop: asyncio.AbstractEventLoop, future: "asyncio.Future[list[str]]") -> None:
    result: list[str] | OSError
    try:
        # As bytes: for str, Python would apply its own, older rules for international names.
        rows = socket.getaddrinfo(name.encode(), None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        result = [str(row[4][0]) for row in rows]
    except OSError as exc:
        result = exc
    with suppress(RuntimeError):  # the loop is closed: nothing waits for the result
        loop.call_soon_threadsafe(_set_result, future, result)


def _set_result(future: "asyncio.Future[list[str]]", result: list[str] | OSError) -> None:
    if future.done():
        return
    if isinstance(result, OSError):
        future.set_exception(result)
    else:
        future.set_result(result)


def _reason(exc: Exception) -> str:
    return (exc.strerror if isinstance(exc, OSError) else None) or str(exc)
