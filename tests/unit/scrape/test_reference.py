"""The reference matches the code, and its examples run."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from shoal.scrape import page
from shoal.scrape import parsing as tree
from shoal.scrape.links import budgets, mazes, traps
from shoal.scrape.settings.scraper import ScraperSettings
from tools.settings_table import with_table

REFERENCE = (Path(__file__).parents[3] / "docs" / "reference" / "scraper.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", REFERENCE, re.DOTALL)
SETTINGS = dict(re.findall(r"^\| `(\w+)` \| `(.+?)` \|", REFERENCE, re.MULTILINE))


def test_the_examples_run():
    scope = {"__name__": "example"}
    for example in EXAMPLES:
        exec(example, scope)
    assert len(EXAMPLES) == 6
    quotes = scope["quotes"]
    assert quotes.has_seeds and quotes.parse("<div class=quote>").items == [{"tag": "love", "text": ""}]
    assert [task.step for task in scope["books"].parse("<h3><a href=/1>x</a></h3>").follow] == ["book"]


def test_the_example_of_forms_sends_what_it_says():
    scope = {"__name__": "example"}
    exec(EXAMPLES[2], scope)
    form = "<form id=search action=/s><input name=t value=1></form>"
    harvest = scope["shop"].parse(form, url="https://shop.example.com/")
    assert [task.request.post for task in harvest.follow] == [
        b"t=1&q=lamp",
        *(b'{"page":%d}' % number for number in range(1, 4)),
        None,
    ]


def test_the_table_of_settings_is_that_of_the_declarations():
    assert with_table(REFERENCE) == REFERENCE, "run: python -m tools.settings_table"


@pytest.mark.parametrize("name", SETTINGS)
def test_the_default_that_is_listed_is_the_default(name):
    written = SETTINGS[name].strip('"')
    value = {"None": None, "True": True, "()": (), "{}": {}}.get(written, written)
    if name == "per_host":
        assert ScraperSettings.read().run_settings().per_host == int(value)
    else:
        assert replace(ScraperSettings.read(**{name: value}), mode_given=False) == ScraperSettings()


def test_the_numbers_are_those_of_the_code():
    for number in (
        f"{tree.MAX_TEXT:,} characters",
        f"{tree.MAX_TREE >> 20} MB or ten seconds",
        f"{page.MAX_LINKS:,} links",
        f"more than {traps.MAX_LENGTH:,} characters",
        f"more than {traps.MAX_SEGMENTS} segments",
        f"after {budgets.ENDLESS:,} URLs",
        f"after {budgets.RECURRING:,} paths",
        f"after {budgets.CALENDAR:,} pages",
        f"after {budgets.VARIANTS:,} sorted",
        f"after {budgets.FACETS:,} of one host and {budgets.PER_FACET_VALUE} for",
        f"after {budgets.PAIRS:,} of one path and {budgets.PER_PAIR_VALUE} for",
        f"after {budgets.MAZE:,} visited pages",
        f"{budgets.MAZE_SAMPLE:,} of them",
        f"of {mazes.WINDOW} visited pages",
        f"and {budgets.PER_PAGE} for every page",
        f"and {budgets.PER_NAME} for every different",
        f"{100 * mazes.MIN_BRANCHING:.0f} of 100 pages",
        f"fewer than {1000 * mazes.MAX_CROSS_LINKS:.0f} of 1,000",
        f"After {budgets.PAGING:,} such links",
    ):
        assert number in REFERENCE
    assert (tree.MAX_SECONDS, traps.MAX_YEARS_AHEAD, traps.MAX_YEARS_BACK) == (10, 10, 100)
