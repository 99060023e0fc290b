"""Which addresses a host name has: asked of the system, kept for a while, asked once for all who wait."""

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
from shoal.fetch.address import Address
from shoal.fetch.shared import Shared, Shelf

Clock = Callable[[], float]
Lookup = Callable[[str], Awaitable[Sequence[str]]]

LIFETIME = MINUTE
FAILURE_LIFETIME = 5 * SECOND
MOST_NAMES = 10_000
MOST_LOOKUPS = 32  # at a time
MOST_ADDRESSES = 16  # of one name; the rest is not needed


class Resolved(NamedTuple):
    """The addresses of a name, or why it has none, and until when that holds."""

    addresses: tuple[Address, ...]
    failure: str | None
    until: float


class Names:
    """Resolves names; an answer is kept for a minute, a failure for some seconds."""

    def __init__(self, lookup: Lookup, clock: Clock, lifetime: timedelta = LIFETIME) -> None:
        self._lookup, self._clock, self._lifetime = lookup, clock, lifetime
        self._known: Shelf[Resolved] = Shelf(MOST_NAMES)
        self._asking: Shared[Resolved] = Shared()
        self._slots = asyncio.Semaphore(MOST_LOOKUPS)

    async def resolve(self, name: str) -> Resolved:
        """Return the addresses of a name; raises DnsFailed."""
        answer = self._known.get(name)
        if answer is None or answer.until <= self._clock():
            answer = await self._asking.do(name, lambda: self._resolve(name))
        if answer.failure:
            raise DnsFailed(answer.failure)
        return answer

    async def close(self) -> None:
        """Stop asking."""
        await self._asking.close()

    async def _resolve(self, name: str) -> Resolved:
        async with self._slots:
            try:
                texts = await self._lookup(name)
                found = tuple(dict.fromkeys(map(ip_address, texts[:MOST_ADDRESSES])))
                failure = None if found else "it has no address"
            except (OSError, ValueError) as exc:
                found, failure = (), _reason(exc)
        return self._keep(name, found, failure)

    def _keep(self, name: str, found: tuple[Address, ...], failure: str | None) -> Resolved:
        before = self._known.get(name)
        if before and set(before.addresses) == set(found):
            found = before.addresses  # the same object, by which connections to it are recognised
        lifetime = FAILURE_LIFETIME if failure else self._lifetime
        text = failure and f"The name {name!r} could not be resolved: {failure}"
        return self._known.put(name, Resolved(found, text, self._clock() + lifetime.total_seconds()))


async def system_lookup(name: str) -> Sequence[str]:
    """Ask the system for a name's addresses; raises OSError."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[list[str]] = loop.create_future()
    # A daemon thread of its own: a lookup may hang for half a minute, and must not hold up the process's end.
    threading.Thread(target=_look_up, args=(name, loop, future), name="shoal-dns", daemon=True).start()
    return await future


def _look_up(name: str, loop: asyncio.AbstractEventLoop, future: "asyncio.Future[list[str]]") -> None:
    result: list[str] | OSError
    try:
        # As bytes: for text, Python would apply its own, older rules for international names.
        rows = socket.getaddrinfo(name.encode(), None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        result = [str(row[4][0]) for row in rows]
    except OSError as exc:
        result = exc
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(_hand_over, future, result)


def _hand_over(future: "asyncio.Future[list[str]]", result: list[str] | OSError) -> None:
    if future.done():
        return
    if isinstance(result, OSError):
        future.set_exception(result)
    else:
        future.set_result(result)


def _reason(exc: Exception) -> str:
    return (exc.strerror if isinstance(exc, OSError) else None) or str(exc)
