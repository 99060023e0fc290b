"""Pages of long lists: nothing twice, nothing left out, and rows that leave meanwhile."""

import pytest

from shoal.core.errors import InvalidSetting
from shoal.web.paging import DEEPEST, SLACK, each, page


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
