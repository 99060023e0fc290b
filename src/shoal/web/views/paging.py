"""Pagination of lists that may be long."""

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Generic, Protocol, TypeVar

from shoal.core.errors import InvalidSetting
from shoal.core.tasks import first
from shoal.core.values import read_whole

T = TypeVar("T")
R = TypeVar("R")

DEFAULT_LIMIT, MAX_LIMIT = 50, 1_000
MAX_SEARCHED = 5_000  # rows that a search reads per page
MAX_SCANNED = 100_000  # rows that are read to find a page of a list without cursors


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """A page of a list; send `next` as `after` to get the following page. None at the end."""

    rows: list[T]
    next: str | None

    def of(self, row: Callable[[T], R]) -> "ListPage[R]":
        """Return the page with each entry made into a row."""
        return ListPage([row(each) for each in self.rows], self.next)


class WithCursor(Protocol):
    """A row that the queue can continue a list after."""

    @property
    def cursor(self) -> str:
        """The value for `after`."""


P = TypeVar("P", bound=WithCursor)


@dataclass(frozen=True, slots=True)
class Search(Generic[T]):
    """A page of search results, and how many rows the search read."""

    page: ListPage[T]
    read: int

    @property
    def is_complete(self) -> bool:
        """Whether the search has read to the end."""
        return self.page.next is None


async def cursor_page(source: AsyncIterator[P], limit: int = DEFAULT_LIMIT) -> ListPage[P]:
    """Return the first page of a list that the queue reads from a cursor; all pages cost the same."""
    rows = await take(source, limit + 1)
    page_rows = rows[:limit]
    return ListPage(page_rows, page_rows[-1].cursor if len(rows) > limit else None)


async def search_page(
    source: AsyncIterator[P], matches: Callable[[P], bool], limit: int = DEFAULT_LIMIT
) -> Search[P]:
    """Return the rows that match among the next few thousand; the next page continues after those."""
    found: list[P] = []
    read, last = 0, None
    async for row in source:
        if len(found) >= limit or read >= MAX_SEARCHED:
            return Search(ListPage(found, last), read)
        read, last = read + 1, row.cursor
        if matches(row):
            found.append(row)
    return Search(ListPage(found, None), read)


async def scan_page(
    source: AsyncIterator[T],
    key: Callable[[T], str],
    *,
    limit: int = DEFAULT_LIMIT,
    after: str | None = None,
) -> ListPage[T]:
    """Return the rows after the one that `after` stands for, in a list without cursors of its own.

    If that row is gone, the page starts where it was.
    """
    position, _, digest = (after or "0").partition(".")
    rows: list[T] = []
    is_found, read = not after, 0
    start = max(read_whole("after", position, least=0, most=MAX_SCANNED) - 1, 0)
    async for row in source:
        read += 1
        if not is_found and _digest(key(row)) == digest:
            is_found, start = True, read
            rows.clear()
        elif is_found or start < read <= start + limit + 1:
            rows.append(row)
        if is_found and len(rows) > limit:
            break
        if not is_found and read >= MAX_SCANNED:
            reason = f"is beyond {MAX_SCANNED:,} rows. Filter the list, for example by step or state"
            raise InvalidSetting("after", reason)
    page_rows = rows[:limit]
    return ListPage(
        page_rows, f"{start + limit}.{_digest(key(page_rows[-1]))}" if len(rows) > limit else None
    )


async def as_async(rows: Iterable[T]) -> AsyncIterator[T]:
    """Yield rows that are already in memory."""
    for row in rows:
        yield row


def id_page(rows: list[T], number: Callable[[T], int], limit: int) -> ListPage[T]:
    """Return a page of rows that the queue finds by their numeric id."""
    page_rows = rows[:limit]
    return ListPage(page_rows, str(number(page_rows[-1])) if len(rows) > limit else None)


async def take(source: AsyncIterator[T], count: int) -> list[T]:
    """Return the first rows, and read no more."""
    return [row async for row in first(source, count)]


def _digest(key: str) -> str:
    return blake2b(key.encode(errors="replace"), digest_size=8).hexdigest()
