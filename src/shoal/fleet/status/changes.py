"""The pages of a run that are new, changed or gone, with the fields that differ."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import Any

import msgspec

from shoal.core.errors import InvalidSetting
from shoal.core.model import Run
from shoal.core.values import read_choice
from shoal.fleet.status.rows.tasks import ChangeRow
from shoal.queue.contract import Queue
from shoal.worker.page_changes import FieldDifference, PageDifferences
from shoal.worker.recrawl import IndexedPage, PageChange, PagePlace, key_of, read_index, topic

LISTED = (PageChange.NEW, PageChange.CHANGED, PageChange.GONE)
BATCH = 100  # pages whose differences are read at a time
UNKNOWN = "its earlier items are not stored"
LINKS = "it has the same items, or none, and other links"

_differences = msgspec.msgpack.Decoder(PageDifferences)


class ListedChange(msgspec.Struct, frozen=True, kw_only=True):
    """A page that is new, changed or gone; of a changed one, a field that differs."""

    change: PageChange
    step: str | None
    url: str | None
    item: int | None = None  # position of the item on the page, from 1
    field: str | None = None  # None for an item that was added or removed
    old: Any = None
    new: Any = None
    info: str = ""  # what of the page is not listed, and why
    cursor: str

    def row(self) -> ChangeRow:
        """Return the row of a report."""
        return ChangeRow.of(self)


async def list_changes(
    queue: Queue, run: Run, *, only: PageChange | None = None, after: str | None = None
) -> AsyncIterator[ListedChange]:
    """Yield the changes of a run, from the one after the cursor `after`; `only` selects one kind."""
    begin = _read_cursor(after) if after else (PagePlace("", 0), 0)
    wanted = LISTED if only is None else (only,)
    pages = await read_index(queue, run.scraper, run.id)
    while batch := list(islice(pages, BATCH)):
        chosen = [(at, page) for at, page in batch if at >= begin[0] and page.finding in wanted]
        keys = [key_of(page.task) for _, page in chosen if page.finding is PageChange.CHANGED]
        notes = await queue.notes(topic("changes", run.scraper, run.id), keys) if keys else {}
        for at, page in chosen:
            note = notes.get(key_of(page.task))
            for number, change in enumerate(_of_page(at, page, note.value if note else None), 1):
                if (at, number) > begin:
                    yield change
        await asyncio.sleep(0)  # a run may have a million unchanged pages


async def has_changes(queue: Queue, run: Run) -> bool:
    """Return whether a run has compared pages with their earlier visits, as runs with `again` do."""
    return bool((await queue.notes_size(topic("pages", run.scraper, run.id))).count)


def read_change_kind(value: object) -> PageChange | None:
    """Return the kind of change of this name; raises InvalidSetting."""
    return None if value is None else PageChange(read_choice("only", value, PageChange))


def _of_page(at: PagePlace, page: IndexedPage, data: bytes | None) -> Iterator[ListedChange]:
    differences, info = PageDifferences([]), ""
    if page.finding is PageChange.CHANGED:
        differences, info = _read(data)
    rows = differences.stored or [FieldDifference(0)]
    for number, row in enumerate(rows, 1):
        yield ListedChange(
            change=page.finding,
            step=page.task.step,
            url=page.task.url,
            item=row.item or None,
            field=row.field,
            old=row.old,
            new=row.new,
            info=info if number == len(rows) else "",
            cursor=f"{at.note}.{at.position}.{number}",
        )


def _read(data: bytes | None) -> tuple[PageDifferences, str]:
    """Return the stored differences of a page, and what is not among them."""
    try:
        found = _differences.decode(data or b"")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return PageDifferences([]), UNKNOWN
    if not found.stored:
        return found, LINKS
    return found, f"{found.more:,} more differences" if found.more else ""


def _read_cursor(after: str) -> tuple[PagePlace, int]:
    note, *numbers = after.split(".")
    if len(numbers) != 2 or not all(part.isascii() and part.isdigit() for part in numbers):
        raise InvalidSetting("after", f"{after!r} is no place in this list")
    position, number = map(int, numbers)
    return PagePlace(note, position), number
