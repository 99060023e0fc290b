"""Connections as few and as cheap as possible: how many calls run at once, and what the driver need not ask.

The first claim on a connection takes the server four times as long as the next, because it plans the queries
of the function; so do other calls. A process that used a connection for every call that comes while others
run had up to six, and made the same plans on each. Calls take milliseconds, so they take turns on one, and
there is another once calls have waited for longer than it costs, or when many wait.
"""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

MAX_WAITED_SECONDS = 0.1  # that calls have waited, all together, before there is another connection
MAX_WAITING = 3  # calls; a launcher makes as many at once when its workers begin

# The ids of array types and of their elements, the same on every server: PostgreSQL assigns those below
# 16,384 in its source code, and clients rely on them.
_ELEMENTS: Final = {
    1000: (16, "bool"),
    1001: (17, "bytea"),
    1005: (21, "int2"),
    1007: (23, "int4"),
    1016: (20, "int8"),
    1022: (701, "float8"),
    1185: (1184, "timestamptz"),
    1187: (1186, "interval"),
    2951: (2950, "uuid"),
}


class GrowingTurns:
    """Lets calls in by turns: at first one at a time, and one more whenever they have waited for long."""

    def __init__(self, most: int, *, max_waited: float = MAX_WAITED_SECONDS) -> None:
        self._most, self._max_waited = most, max_waited
        self._slots, self._size, self._waiting = asyncio.Semaphore(1), 1, 0
        self._waited = 0.0  # seconds, since the last connection was added

    async def __aenter__(self) -> None:
        if not self._slots.locked() or self._size >= self._most:
            await self._slots.acquire()
            return
        if self._waiting >= MAX_WAITING:
            self._grow()
        self._waiting += 1
        try:
            await self._acquire()
        finally:
            self._waiting -= 1

    async def __aexit__(self, *_: object) -> None:
        self._slots.release()

    async def _acquire(self) -> None:
        loop = asyncio.get_running_loop()
        while self._size < self._most:
            since = loop.time()
            try:
                async with asyncio.timeout(self._max_waited - self._waited):
                    await self._slots.acquire()
            except TimeoutError:
                self._grow()
                continue
            self._waited += loop.time() - since
            if self._waited >= self._max_waited:
                self._grow()
            return
        await self._slots.acquire()

    def _grow(self) -> None:
        if self._size < self._most:  # others may have waited for as long
            self._size += 1
            self._waited = 0.0
            self._slots.release()


class NoStatement(msgspec.Struct, frozen=True):
    """Stands for the statement of a query that was not sent; named, so that no other is replaced."""

    name: str = "none"


def described(oids: Collection[int]) -> list[Mapping[str, Any]] | None:
    """Return what the driver reads of these types' rows in the catalogue; None if one is not known here."""
    if not set(oids) <= _ELEMENTS.keys():
        return None
    return [_row(oid, *_ELEMENTS[oid]) for oid in oids]


def _row(oid: int, element: int, name: str) -> Mapping[str, Any]:
    return {
        "oid": oid,
        "ns": "pg_catalog",
        "name": f"_{name}",
        "kind": b"b",
        "elemtype": element,
        "elemdelim": b",",
        "basetype": None,
        "range_subtype": None,
        "attrtypoids": None,
    }
