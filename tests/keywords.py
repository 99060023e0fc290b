"""`-k` reads only the test files that can have a match: collecting all of them takes many seconds."""

import re
from functools import cache
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

ROOT = Path(__file__).parent
OPERATORS = {"and", "or"}


class KeywordFiles:
    """Leaves out the test files in whose paths and texts the words of `-k` do not occur.

    A word that occurs in no file is a part of a name that pytest has made up, such as `words3`; every file
    may have it. An expression with `not` is matched by most files, and leaves none out.
    """

    __test__ = False

    def __init__(self, expression: str, root: Path = ROOT) -> None:
        self._expression, self._root = expression, root
        self._left_out: set[Path] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        if collection_path.match("test_*.py") and not self.may_match(collection_path):
            self._left_out.add(collection_path)
            return True
        return None

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._left_out:
            terminalreporter.write_line(f"-k: {len(self._left_out)} files without these words were not read")

    def may_match(self, path: Path) -> bool:
        """Return whether a test of this file can be meant."""
        words = [word.lower() for word in re.findall(r"[^\s()]+", self._expression)]
        if "not" in words or not path.is_relative_to(self._root):
            return True
        text = _text_around(path.parent, self._root) + _text_of(path)
        found = {
            word: word in text or not _occurs(word, self._root) for word in words if word not in OPERATORS
        }
        return Expression.compile(self._expression).evaluate(lambda word, **_: found[word.lower()])


@cache
def _occurs(word: str, root: Path) -> bool:
    return any(word in _text_of(path) for path in root.rglob("*.py"))


@cache
def _text_around(folder: Path, root: Path) -> str:
    """Return the text of the modules in this folder and those around it, whose values name cases."""
    if folder == root:
        return ""
    modules = (path for path in folder.glob("*.py") if not path.name.startswith("test_"))
    return _text_around(folder.parent, root) + "".join(map(_text_of, modules))


@cache
def _text_of(path: Path) -> str:
    return f"{path}\n{path.read_text()}\n".lower()
