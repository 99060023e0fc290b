"""A name is defined once, a folder can be taken in at a glance, and a file stays small."""

import re
from collections import Counter, defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "shoal"
MAX_FILES = 17  # of one folder, without `__init__.py`
MAX_QUERIES = 20  # of one folder
MAX_LINES = 420
# One table or one class each.
LARGER: dict[str, int] = {}


def test_no_class_name_is_defined_twice():
    defined = defaultdict(list)
    for file in PACKAGE.rglob("*.py"):
        # A tree of every file would take seconds.
        for name in re.findall(r"^ *class _*(\w+)[(:\[]", file.read_text(), re.MULTILINE):
            defined[name].append(str(file.relative_to(PACKAGE)))
    assert {name: files for name, files in defined.items() if len(files) > 1} == {}


def test_a_folder_shows_a_reader_few_files_at_once():
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    counts = {str(folder.relative_to(PACKAGE)): len(list(folder.glob("[!_]*.py"))) for folder in folders}
    assert {name: count for name, count in counts.items() if count > MAX_FILES} == {}


def test_a_folder_of_queries_shows_a_reader_few_of_them_at_once():
    counts = Counter(str(file.parent.relative_to(PACKAGE)) for file in PACKAGE.rglob("*.sql"))
    assert {name: count for name, count in counts.items() if count > MAX_QUERIES} == {}


def test_a_file_stays_small():
    lines = {
        str(file.relative_to(PACKAGE)): len(file.read_text().splitlines()) for file in PACKAGE.rglob("*.py")
    }
    assert {name: count for name, count in lines.items() if count > LARGER.get(name, MAX_LINES)} == {}


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
