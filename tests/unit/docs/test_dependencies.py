"""The page of dependencies lists all that a user may install, with the floors of pyproject.toml."""

import re
import tomllib

from packaging.requirements import Requirement

from tests.unit.docs.pages import ROOT

FOR_DEVELOPERS = {"all", "dev", "docs", "bench"}


def test_every_dependency_is_listed_with_its_floor():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {"always": project["dependencies"], **project["optional-dependencies"]}
    declared = {
        (needed.name, extra, floor.version.removesuffix(".*"))
        for extra, lines in groups.items()
        if extra not in FOR_DEVELOPERS
        for needed in map(Requirement, lines)
        for floor in needed.specifier
        if floor.operator in (">=", "==")
    }
    page = (ROOT / "docs" / "reference" / "dependencies.md").read_text()
    cells = [[cell.strip() for cell in row.split("|")] for row in re.findall(r"^\| [a-z].*", page, re.M)]
    assert {(name, extra, floor) for _, name, extra, *_, floor, _ in cells[1:]} == declared
