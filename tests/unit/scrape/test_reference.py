"""The reference matches the code, and its examples run."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from shoal.scrape import page
from shoal.scrape import parsing as tree
from shoal.scrape.links import filter as link_filter
from shoal.scrape.links import traps
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
        f"after {traps.LIMIT:,} of them",
        f"After {traps.LIMIT:,} such pages",
        f"takes back {traps.ENDED} |",
        f"more than {traps.PER_VALUE} combinations",
        f"Beyond {link_filter.MAX_REPORTED} traps",
    ):
        assert number in REFERENCE
    assert (tree.MAX_SECONDS, traps.MIN_NEW, traps.MIN_PARAMS, traps.REPEATED) == (10, 2, 3, 3)
    assert traps.SHARED_PART == 100, "about 1 %"
    for rule in (traps.MAZE, traps.FILTERS, traps.REPEATS, traps.PATTERN):
        assert f"`{link_filter.TRAP}{rule} …`" in REFERENCE
