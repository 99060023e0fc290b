"""Pagination cursors: the position of a row in its list, as the text that `after` takes; and merged lists."""

import heapq
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, TypeVar

from shoal.core.errors import InvalidSetting
from shoal.core.text import shorten

MAX_DIGITS = 18  # of a number, so that any store can hold it
FIRST_PAGE, GROWTH = 64, 4  # rows of the first page, and the factor to the next
Row = TypeVar("Row")


def cursor_of(*parts: object) -> str:
    """Join the parts of a cursor."""
    return ".".join(map(str, parts))


def parts_of(after: str, count: int) -> list[str]:
    """Split a cursor into `count` parts; raises InvalidSetting if it has another number of them."""
    parts = after.split(".")
    if len(parts) != count:
        raise invalid_cursor(after)
    return parts


def numbers_of(after: str, parts: Sequence[str]) -> list[int]:
    """Convert parts of a cursor to numbers; raises InvalidSetting if one is not a number."""
    if not all(part.isascii() and part.isdecimal() and len(part) <= MAX_DIGITS for part in parts):
        raise invalid_cursor(after)
    return [int(part) for part in parts]


def invalid_cursor(after: str) -> InvalidSetting:
    """Return the error for a text that is not a cursor of this list."""
    return InvalidSetting(
        "after", f"takes the cursor of a row of the same list, not {shorten(after)!r}. Begin without it"
    )


def number_in(after: str | None) -> int:
    """Return the number of a cursor that has one part, zero for the beginning; raises InvalidSetting."""
    return 0 if after is None else numbers_of(after, parts_of(after, 1))[0]


def page_sizes(limit: int) -> Iterator[int]:
    """Yield the numbers of rows to read at a time: few at first, because many readers need no more."""
    size = min(FIRST_PAGE, limit)
    while True:
        yield size
        size = min(size * GROWTH, limit)


async def merge(
    streams: Sequence[AsyncIterator[Row]], order: Callable[[Row], Any]
) -> AsyncIterator[tuple[int, Row]]:
    """Merge sorted streams; yield each row with the number of its stream."""
    heap: list[tuple[Any, int, Row]] = []
    for which, stream in enumerate(streams):
        async for row in stream:
            heapq.heappush(heap, (order(row), which, row))
            break
    while heap:
        _, which, row = heapq.heappop(heap)
        yield which, row
        async for following in streams[which]:
            heapq.heappush(heap, (order(following), which, following))
            break
