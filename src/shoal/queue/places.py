"""Where a row stands in its list: numbers and words, joined to the text that `after` takes."""

from collections.abc import Iterator, Sequence

from shoal.core.errors import InvalidSetting, shorten

LONGEST = 18  # digits of a number, so that any store can hold it
FIRST_PAGE, GROWTH = 64, 4


def place_of(*parts: object) -> str:
    """Return a place as text."""
    return ".".join(map(str, parts))


def parts_of(after: str, count: int) -> list[str]:
    """Return the parts of a place; raises InvalidSetting where there are not so many."""
    parts = after.split(".")
    if len(parts) != count:
        raise no_place(after)
    return parts


def numbers_of(after: str, parts: Sequence[str]) -> list[int]:
    """Return parts of a place as numbers; raises InvalidSetting where they are none."""
    if not all(part.isascii() and part.isdecimal() and len(part) <= LONGEST for part in parts):
        raise no_place(after)
    return [int(part) for part in parts]


def no_place(after: str) -> InvalidSetting:
    """Return the error for a text that is no place of this list."""
    return InvalidSetting(
        "after", f"takes the place of a row of the same list, not {shorten(after)!r}. Begin without it"
    )


def check_keys(keys: Sequence[str] | None, after: str | None) -> None:
    """Refuse a place in a list of tasks that are named; raises InvalidSetting."""
    if keys is not None and after is not None:
        raise InvalidSetting("after", "cannot be given with keys: such a list is read whole")


def page_sizes(most: int) -> Iterator[int]:
    """Yield how many rows to read at a time: few at first, for many a reader wants no more."""
    size = min(FIRST_PAGE, most)
    while True:
        yield size
        size = min(size * GROWTH, most)
