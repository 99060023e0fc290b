"""Pages of long lists: nothing twice, nothing left out, and rows that leave meanwhile."""

from dataclasses import dataclass

import pytest

from shoal.core.errors import InvalidSetting
from shoal.web import paging
from shoal.web.paging import DEEPEST, SLACK, each, page, placed, searched


async def walked(rows, limit):
    """Return all rows, page by page."""
    found, after = [], None
    while True:
        one = await page(each(rows), str, limit=limit, after=after)
        assert len(one.rows) <= limit
        found += one.rows
        if one.next is None:
            return found
        after = one.next


@pytest.mark.parametrize("limit", [1, 3, 10, 11, 100])
async def test_pages_together_are_the_list(limit):
    rows = list(range(10))
    assert await walked(rows, limit) == rows


async def test_the_next_page_begins_behind_a_row_even_when_others_came_before_it():
    first = await page(each("abcdef"), str, limit=3)
    assert (await page(each("xyzabcdef"), str, limit=9, after=first.next)).rows == list("def")


async def test_when_rows_before_it_have_left_nothing_is_left_out():
    first = await page(each("abcdef"), str, limit=3)
    assert (await page(each("cdef"), str, limit=9, after=first.next)).rows == list("def")


async def test_when_the_row_itself_has_left_the_page_begins_where_it_was():
    first = await page(each("abcdef"), str, limit=3)
    assert (await page(each("abdef"), str, limit=9, after=first.next)).rows == list("ef")


async def test_no_more_is_read_than_needed():
    read = []

    async def source():
        for number in range(10_000):
            read.append(number)
            yield number

    first = await page(source(), str, limit=10)
    assert len(read) == 11
    read.clear()
    await page(source(), str, limit=10, after=first.next)
    assert len(read) == 21
    read.clear()
    await page(source(), str, limit=10, after="10.0000000000000000")
    assert len(read) <= 10 + SLACK + 11


@pytest.mark.parametrize("after", ["x", "1", "-1.0000000000000000", "1.zz", "1.0000000000000000.1", "9" * 30])
async def test_a_mark_that_no_page_gave_is_refused(after):
    with pytest.raises(InvalidSetting, match="after"):
        await page(each("abc"), str, after=after)


async def test_a_list_is_not_walked_for_ever():
    with pytest.raises(InvalidSetting, match="100,000 rows"):
        await page(each("abc"), str, after=f"{DEEPEST + 1}.0000000000000000")


@dataclass
class Row:
    """A row of a list that can be entered behind it."""

    name: str

    @property
    def place(self):
        return self.name


def behind(after, names="abcdef"):
    return each(Row(name) for name in names if name > (after or ""))


async def test_a_list_with_places_goes_on_behind_the_last_row_shown():
    first = await placed(behind(None), 4)
    assert ([row.name for row in first.rows], first.next) == (list("abcd"), "d")
    second = await placed(behind(first.next), 4)
    assert ([row.name for row in second.rows], second.next) == (list("ef"), None)


async def test_a_page_that_is_just_full_has_no_next():
    assert (await placed(behind(None), 6)).next is None


async def test_a_search_says_how_much_it_read_and_goes_on_behind_it(monkeypatch):
    monkeypatch.setattr(paging, "SEARCHED", 3)
    found = await searched(behind(None), lambda row: row.name in "ae")
    assert ([row.name for row in found.page.rows], found.page.next) == (["a"], "c")
    assert (found.read, found.is_whole) == (3, False)
    rest = await searched(behind(found.page.next), lambda row: row.name in "ae")
    assert ([row.name for row in rest.page.rows], rest.read, rest.is_whole) == (["e"], 3, True)


async def test_a_search_stops_when_its_page_is_full():
    found = await searched(behind(None), lambda row: True, limit=2)
    assert ([row.name for row in found.page.rows], found.page.next, found.read) == (["a", "b"], "b", 2)
