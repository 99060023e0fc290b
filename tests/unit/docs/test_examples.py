"""The closing lines on the page of the examples are those that the examples print."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "examples.md").read_text()
BLOCKS = re.findall(r"```\n(\w+) on \w+: as expected, in \d+ s\n(.*?)```", PAGE, re.DOTALL)


def printed_by(name: str) -> Iterator[re.Pattern[str]]:
    """Return each text of an example's run.py, with its constants filled in and anything for the rest."""
    module = importlib.import_module(f"examples.{name}.run")
    for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
        if isinstance(node, ast.JoinedStr):
            yield re.compile("".join(_pattern(part, vars(module)) for part in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.compile(re.escape(node.value))


def _pattern(part: ast.expr, names: dict) -> str:
    if isinstance(part, ast.Constant):
        return re.escape(str(part.value))
    try:
        text = eval(compile(ast.Expression(ast.JoinedStr([part])), "run.py", "eval"), dict(names))
    except Exception:  # a variable of the function
        return ".+"
    return re.escape(text)


@pytest.mark.parametrize(("name", "lines"), BLOCKS, ids=[name for name, _ in BLOCKS])
def test_the_closing_lines_are_those_that_the_example_prints(name, lines):
    printed = list(printed_by(name))
    other = [line for line in lines.splitlines() if not any(one.fullmatch(line.strip()) for one in printed)]
    assert other == []


def test_every_example_has_its_closing_lines():
    folders = {one.parent.name for one in (ROOT / "examples").glob("*/run.py")}
    assert {name for name, _ in BLOCKS} == folders == set(re.findall(r"`make example-([a-z]+)`", PAGE))
