"""Lists of several servers as one: merged by an order, or one server after the other; and their cursors."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import TypeVar
from urllib.parse import quote, unquote

from shoal.core.errors import UnknownRun
from shoal.queue.cursors import invalid_cursor
from shoal.queue.sharded.members import Member, Members

SEPARATOR = "!"  # which `quote` never leaves in a part
Row = TypeVar("Row")
Stream = Callable[[Member], AsyncIterator[Row]]


async def if_known(stream: AsyncIterator[Row]) -> AsyncIterator[Row]:
    """Stream nothing from a server that does not have the run; its home was asked before."""
    with suppress(UnknownRun):
        async for row in stream:
            yield row


def split_cursor(after: str | None, count: int) -> list[str | None]:
    """Return the position in each of several merged lists; raises InvalidSetting."""
    if after is None:
        return [None] * count
    parts = after.split(SEPARATOR)
    if len(parts) != count:
        raise invalid_cursor(after)
    return [unquote(part) or None for part in parts]


def join_cursor(parts: Sequence[str | None]) -> str:
    """Return the position in several merged lists."""
    return SEPARATOR.join(quote(part or "", safe="") for part in parts)


def place_of(after: str | None, members: Members) -> tuple[int, str | None]:
    """Return the server and the position on it, of a list with one server after the other."""
    if after is None:
        return 0, None
    number, _, inner = after.partition(SEPARATOR)
    if not (number.isascii() and number.isdecimal() and len(number) < 4 and int(number) < len(members)):
        raise invalid_cursor(after)
    if not inner:
        raise invalid_cursor(after)
    return int(number), unquote(inner)


def cursor_at(number: int, inner: str) -> str:
    """Return a position in a list with one server after the other."""
    return f"{number}{SEPARATOR}{quote(inner, safe='')}"
