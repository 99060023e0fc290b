"""The figures of the README are those that the crawl benchmark recorded."""

import re

import pytest

from tests.unit.docs.pages import DOCS, ROOT, rows

TEXT = (ROOT / "README.md").read_text()
PAGE = (DOCS / "reference" / "results.md").read_text()
COLUMNS = (
    ("Shoal, SQLite, 1 worker",),
    ("Scrapy",),
    ("Crawlee (Parsel), memory", "Crawlee (Parsel), files"),
    ("scrapy-redis",),
)


def recorded_rates(task, names):
    lines = PAGE.partition(f"| {task} |")[2].partition("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [next(row[1] for row in cells if row[0] == name) for name in names]


@pytest.mark.parametrize(("row", "task"), [(0, "task A"), (1, "task B")])
def test_the_speeds_are_those_that_were_recorded(row, task):
    shown = rows(TEXT, "| | Shoal | Scrapy | Crawlee for Python | scrapy-redis |")[row][1:]
    assert [re.findall(r"[\d,.]*\d", cell) for cell in shown] == [
        recorded_rates(task, names) for names in COLUMNS
    ]
