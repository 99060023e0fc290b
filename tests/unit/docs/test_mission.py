"""Every row of the page on what Shoal set out to do names tests and an example, and they are there."""

import re

import pytest

from tests.unit.docs.pages import DOCS, ROOT

TEXT = (DOCS / "mission.md").read_text()
ROWS = re.findall(r"^\| (S\d)\.(\d+) \| (.+) \| ([\d, ]+) \|$", TEXT, re.MULTILINE)
TESTS = dict(re.findall(r"^(\d+)\. `(.*?)`$", TEXT.partition("## The tests")[2], re.MULTILINE))
LAST = {"S0": 15, "S1": 15, "S2": 13, "S3": 13, "S4": 9}
EXAMPLES = {"registries", "news", "social", "listings", "profiles"}


@pytest.mark.parametrize("number", TESTS)
def test_the_test_is_there(number):
    file, _, name = TESTS[number].partition("::")
    assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE)


def test_every_need_has_a_row():
    wanted = [(section, str(number)) for section, last in LAST.items() for number in range(1, last + 1)]
    assert [(section, number) for section, number, *_ in ROWS] == wanted


def test_every_row_names_tests_that_are_listed_and_no_other_is():
    named = [set(re.findall(r"\d+", numbers)) for *_, numbers in ROWS]
    assert all(named) and set().union(*named) == TESTS.keys()
    assert list(TESTS) == [str(number) for number in range(1, len(TESTS) + 1)]


def test_every_section_has_an_example():
    assert set(re.findall(r"`examples/(\w+)/`", TEXT)) == EXAMPLES
    assert set(re.findall(r"`make example-(\w+)`", TEXT)) == EXAMPLES


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_the_example_is_a_project_with_a_page_tests_and_a_target(name):
    folder = ROOT / "examples" / name
    assert all((folder / one).exists() for one in ("README.md", "run.py", "site.py"))
    assert list(folder.glob("shoal.*"))
    assert list((folder / "tests").glob("test_*.py"))
    assert f"example-{name}:" in (ROOT / "Makefile").read_text()
