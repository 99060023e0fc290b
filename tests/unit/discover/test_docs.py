"""The examples of docs/how-to/sources.md run, and its settings can be read."""

import re
import tomllib
from pathlib import Path

import pytest

from shoal.discover.routing import Routes

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "sources.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(number):
    exec(EXAMPLES[number], {})


def test_the_rules_are_read_as_they_are_described():
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    routes = Routes.read(tomllib.loads(text)["routes"])
    assert [(rule, field) for rule, field, _ in routes.explain("https://example.com/news/1")] == [
        (1, "priority"),
        (1, "ttl"),
    ]
    assert {field for _, field, _ in routes.explain("https://www.example.com/x.pdf?y")} == {"step", "ttl"}
