"""One page of a list that may be long, and where the next one begins."""

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Generic, Protocol, TypeVar

from shoal.core.errors import InvalidSetting, shorten

T = TypeVar("T")

DEFAULT_LIMIT, MOST = 50, 1_000
SEARCHED = 5_000  # rows that a search reads for a page
DEEPEST = 100_000  # rows that are read to find a page of a list without places
SLACK = 500  # rows in which a row is looked for that is no longer at its place


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some rows, and what to ask for to have those behind them; None at the end."""

    rows: list[T]
    next: str | None


class Placed(Protocol):
    """A row of a list that the queue can enter behind it."""

    @property
    def place(self) -> str:
        """What `after` takes."""


P = TypeVar("P", bound=Placed)


@dataclass(frozen=True, slots=True)
class Search(Generic[T]):
    """A page of what a search found, and how many rows it read."""

    page: Page[T]
    read: int

    @property
    def is_whole(self) -> bool:
        """Whether it has read to the end."""
        return self.page.next is None


@dataclass(frozen=True, slots=True)
class Mark:
    """The last row of a page: how many rows came up to it, and a hash of its key."""

    position: int = 0
    digest: str = ""

    @classmethod
    def read(cls, text: str | None) -> "Mark":
        """Read what a page gave; raises InvalidSetting."""
        if not text:
            return cls()
        position, _, digest = text.partition(".")
        if not (position.isdecimal() and len(position) < 12 and len(digest) == 16 and digest.isalnum()):
            raise InvalidSetting("after", f"takes what `next` of a page said, not {shorten(text)!r}")
        if int(position) > DEEPEST:
            reason = f"leads beyond {DEEPEST:,} rows. Narrow the list down, by a step or a state"
            raise InvalidSetting("after", reason)
        return cls(int(position), digest)

    def __str__(self) -> str:
        return f"{self.position}.{self.digest}"


async def placed(source: AsyncIterator[P], limit: int = DEFAULT_LIMIT) -> Page[P]:
    """Return the first rows of a list that is read from behind a place; all pages cost the same."""
    rows = await taken(source, limit + 1)
    kept = rows[:limit]
    return Page(kept, kept[-1].place if len(rows) > limit else None)


async def searched(
    source: AsyncIterator[P], is_meant: Callable[[P], bool], limit: int = DEFAULT_LIMIT
) -> Search[P]:
    """Return the rows that are meant among the next few thousand; the next page goes on behind those."""
    found: list[P] = []
    read, last = 0, None
    async for row in source:
        if len(found) >= limit or read >= SEARCHED:
            return Search(Page(found, last), read)
        read, last = read + 1, row.place
        if is_meant(row):
            found.append(row)
    return Search(Page(found, None), read)


async def page(
    source: AsyncIterator[T],
    key: Callable[[T], str],
    *,
    limit: int = DEFAULT_LIMIT,
    after: str | None = None,
) -> Page[T]:
    """Return the rows behind a mark in a list without places, and never hold more than a page of them.

    A row that has left the list since is looked for no further than `SLACK` rows; then the page begins where
    it would have been.
    """
    mark, place = Mark.read(after), 0
    is_found = not mark.digest
    rows: list[T] = []
    async for row in source:
        place += 1
        if not is_found and _digest(key(row)) == mark.digest:
            is_found = True
            rows = []
            mark = Mark(place, mark.digest)
        elif is_found or place > mark.position:
            rows.append(row)
        if len(rows) > (limit if is_found else limit + SLACK):
            break
    return _cut(rows, mark.position, key, limit)


async def each(rows: Iterable[T]) -> AsyncIterator[T]:
    """Yield what is in memory already."""
    for row in rows:
        yield row


def numbered(rows: list[T], number: Callable[[T], int], limit: int) -> Page[T]:
    """Return a page of rows that the queue finds by their number."""
    kept = rows[:limit]
    return Page(kept, str(number(kept[-1])) if len(rows) > limit else None)


async def taken(source: AsyncIterator[T], count: int) -> list[T]:
    """Return the first few, and ask for no more."""
    rows: list[T] = []
    async for row in source:
        rows.append(row)
        if len(rows) >= count:
            break
    return rows


def _cut(rows: list[T], before: int, key: Callable[[T], str], limit: int) -> Page[T]:
    kept = rows[:limit]
    if len(rows) <= limit:
        return Page(kept, None)
    return Page(kept, str(Mark(before + limit, _digest(key(kept[-1])))))


def _digest(key: str) -> str:
    return blake2b(key.encode(errors="replace"), digest_size=8).hexdigest()
