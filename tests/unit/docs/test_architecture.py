"""Every file and folder that ARCHITECTURE.md names is there."""

import re

import pytest

from tests.unit.docs.pages import ROOT, blocks, spans

TEXT = (ROOT / "ARCHITECTURE.md").read_text()
PACKAGE = ROOT / "src" / "shoal"
PATHS = sorted({span for span in spans(TEXT) if "/" in span and re.fullmatch(r"[\w./-]+", span)})
# Parts of paths whose beginning stands beside them.
BESIDE = {"functions/": "queue/postgres", "lib/": "queue/redis/lua", "lua/lib/10_keys.lua": "queue/redis"}
BESIDE |= {"migrations/1001_tables.sql": "queue/postgres", "process/supervisor.py": "worker"}


def folders():
    """Yield each folder of the tree, and the names that stand behind it."""
    (tree,) = [block.code for block in blocks(TEXT) if block.code.startswith("src/shoal/")]
    package = ""
    for indent, name, rest in re.findall(r"^( +)(\w+)/ +(.*)$", tree, re.MULTILINE):
        package = name if len(indent) == 2 else package
        folder = PACKAGE / name if len(indent) == 2 else PACKAGE / package / name
        yield folder, package, re.sub(r"\([^)]*\)", "", rest).split()


def is_there(path):
    """Tell whether a path exists; a folder that has only compiled modules is left of another version."""
    return path.is_file() or (path.is_dir() and any(one.name != "__pycache__" for one in path.iterdir()))


@pytest.mark.parametrize("path", PATHS)
def test_every_path_is_there(path):
    assert any(is_there(base / path) for base in (PACKAGE, ROOT, PACKAGE / BESIDE.get(path, "")))


def test_every_name_of_the_tree_is_there():
    listed = list(folders())
    assert len(listed) > 25
    for folder, package, names in listed:
        for name in names:
            places = (folder / name, folder / f"{name}.py", PACKAGE / package / name, PACKAGE / name)
            assert any(place.exists() for place in places), f"{folder.relative_to(ROOT)}: {name}"


def test_every_package_is_in_the_tree():
    packages = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert packages <= {package for _, package, _ in folders()}
