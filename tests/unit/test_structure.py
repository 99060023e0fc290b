"""A name is defined once, a duration has a unit, a folder shows few files, and a file stays small."""

import ast
import re
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "shoal"
MAX_FILES = 25  # of one folder, without `__init__.py`
MAX_LINES = 600
# The tree of errors, what every backend does, and the list of settings.
LARGER = {"core/errors.py": 750, "queue/contract.py": 650, "scrape/settings/scraper.py": 650}
DURATION = re.compile(r"^_?[A-Z][A-Z0-9_]*_(?:TIMEOUT|INTERVAL|DELAY|PERIOD|AGE|TTL)\b.*=", re.MULTILINE)


def test_no_class_name_is_defined_twice():
    defined = defaultdict(list)
    for file in PACKAGE.rglob("*.py"):
        # A tree of every file would take seconds.
        for name in re.findall(r"^ *class _*(\w+)[(:\[]", file.read_text(), re.MULTILINE):
            defined[name].append(str(file.relative_to(PACKAGE)))
    assert {name: files for name, files in defined.items() if len(files) > 1} == {}


def test_a_duration_is_a_timedelta_or_names_its_unit():
    plain = []
    for file in PACKAGE.rglob("*.py"):
        name, code = str(file.relative_to(PACKAGE)), file.read_text()
        if DURATION.search(code):
            plain += [f"{name}: {constant}" for constant in _plain_durations(code)]
    assert plain == []


def test_a_folder_shows_a_reader_few_files_at_once():
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    counts = {str(folder.relative_to(PACKAGE)): len(list(folder.glob("[!_]*.py"))) for folder in folders}
    assert {name: count for name, count in counts.items() if count > MAX_FILES} == {}


def test_a_file_stays_small():
    lines = {
        str(file.relative_to(PACKAGE)): len(file.read_text().splitlines()) for file in PACKAGE.rglob("*.py")
    }
    assert {name: count for name, count in lines.items() if count > LARGER.get(name, MAX_LINES)} == {}


def _plain_durations(code: str) -> list[str]:
    """Return the constants that are named like durations and are plain numbers."""
    found = []
    for node in ast.parse(code).body:
        if isinstance(node, ast.Assign):
            targets, value = node.targets[0], node.value
            names = targets.elts if isinstance(targets, ast.Tuple) else [targets]
            values = value.elts if isinstance(value, ast.Tuple) and len(names) > 1 else [value]
            pairs = zip(map(ast.unparse, names), values, strict=False)
            found += [name for name, value in pairs if DURATION.match(f"{name} =") and _is_number(value)]
    return found


def _is_number(value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=int() | float()):
            return True
        case ast.Tuple(elts=parts):
            return all(map(_is_number, parts))
        case ast.BinOp(left=left, right=right):
            return _is_number(left) and _is_number(right)
    return False


def test_no_private_name_of_a_dependency_is_imported():
    private = re.compile(
        r"^ *(?:from (?!shoal)[\w.]+\.(_[a-z]\w*)|from (?!shoal)[\w.]+ import .*(?<!as )\b(_[a-z]\w*))", re.M
    )
    found = {
        str(file.relative_to(PACKAGE)): names
        for file in PACKAGE.rglob("*.py")
        if (names := private.findall(file.read_text()))
    }
    assert found == {}
