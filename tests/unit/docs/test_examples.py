"""Every example is a whole project, has a target of make, and is on the page of the examples."""

import re

import pytest

from tests.unit.docs.pages import DOCS, ROOT

EXAMPLES = sorted(one.parent.name for one in (ROOT / "examples").glob("*/run.py"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_a_project_with_a_page_tests_and_a_target(name):
    folder = ROOT / "examples" / name
    assert all((folder / one).exists() for one in ("README.md", "run.py", "site.py"))
    assert list(folder.glob("shoal.*"))
    assert list((folder / "tests").glob("test_*.py"))
    assert f"example-{name}:" in (ROOT / "Makefile").read_text()


def test_the_page_has_every_example():
    page = (DOCS / "examples.md").read_text()
    assert sorted(re.findall(r"`make example-([a-z]+)`", page)) == EXAMPLES
