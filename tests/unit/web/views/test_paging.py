"""Pagination: nothing twice, and nothing left out."""

from dataclasses import dataclass

import pytest

from shoal.core.errors import InvalidSetting
from shoal.web.views import paging
from shoal.web.views.paging import as_async, cursor_page, scan_page, search_page


async def walk(rows, limit):
    """Return all rows, page by page."""
    found, after = [], None
    while True:
        one = await scan_page(as_async(rows), str, limit=limit, after=after)
        assert len(one.rows) <= limit
        found += one.rows
        if one.next is None:
            return found
        after = one.next


@pytest.mark.parametrize("limit", [1, 3, 10, 11, 100])
async def test_pages_together_are_the_list(limit):
    rows = list(range(10))
    assert await walk(rows, limit) == rows


async def test_the_next_page_starts_after_a_row_even_if_others_were_added_before_it():
    first = await scan_page(as_async("abcdef"), str, limit=3)
    assert (await scan_page(as_async("xyzabcdef"), str, limit=9, after=first.next)).rows == list("def")


async def test_nothing_is_left_out_when_earlier_rows_disappear():
    first = await scan_page(as_async("abcdef"), str, limit=3)
    assert (await scan_page(as_async("cdef"), str, limit=9, after=first.next)).rows == list("def")


async def test_a_row_that_has_left_the_list_leaves_its_place():
    first = await scan_page(as_async("abcdef"), str, limit=3)
    second = await scan_page(as_async("abdef"), str, limit=2, after=first.next)
    assert second.rows == list("de")
    assert (await scan_page(as_async("abdef"), str, limit=2, after=second.next)).rows == ["f"]
    assert (await scan_page(as_async("ab"), str, limit=2, after=second.next)).rows == []


@pytest.mark.parametrize("after", ["0123456789abcdef", "-1.00", "9999999999999.00"])
async def test_what_stands_for_no_place_is_refused(after):
    with pytest.raises(InvalidSetting, match="after"):
        await scan_page(as_async("abc"), str, after=after)


async def test_no_more_is_read_than_needed():
    read = []

    async def source():
        for number in range(10_000):
            read.append(number)
            yield number

    first = await scan_page(source(), str, limit=10)
    assert len(read) == 11
    read.clear()
    await scan_page(source(), str, limit=10, after=first.next)
    assert len(read) == 21


async def test_a_list_is_not_read_without_limit(monkeypatch):
    monkeypatch.setattr(paging, "MAX_SCANNED", 3)
    with pytest.raises(InvalidSetting, match="beyond 3 rows"):
        await scan_page(as_async("abcdef"), str, after="1.0000000000000000")


@dataclass
class Row:
    """A row with a cursor."""

    name: str

    @property
    def cursor(self):
        return self.name


def rows_after(after, names="abcdef"):
    return as_async(Row(name) for name in names if name > (after or ""))


async def test_a_list_with_cursors_continues_after_the_last_row():
    first = await cursor_page(rows_after(None), 4)
    assert ([row.name for row in first.rows], first.next) == (list("abcd"), "d")
    second = await cursor_page(rows_after(first.next), 4)
    assert ([row.name for row in second.rows], second.next) == (list("ef"), None)


async def test_a_page_that_is_just_full_has_no_next():
    assert (await cursor_page(rows_after(None), 6)).next is None


async def test_a_search_reports_how_much_it_read_and_continues_after_it(monkeypatch):
    monkeypatch.setattr(paging, "MAX_SEARCHED", 3)
    found = await search_page(rows_after(None), lambda row: row.name in "ae")
    assert ([row.name for row in found.page.rows], found.page.next) == (["a"], "c")
    assert (found.read, found.is_complete) == (3, False)
    rest = await search_page(rows_after(found.page.next), lambda row: row.name in "ae")
    assert ([row.name for row in rest.page.rows], rest.read, rest.is_complete) == (["e"], 3, True)


async def test_a_search_stops_when_its_page_is_full():
    found = await search_page(rows_after(None), lambda row: True, limit=2)
    assert ([row.name for row in found.page.rows], found.page.next, found.read) == (["a", "b"], "b", 2)
