"""`shoal new`: what it writes, and what it refuses."""

import re
import sys
from pathlib import Path

import pytest

import shoal
from shoal.cli.commands.project.new import PROPOSED, ProjectTemplate
from shoal.core.version import VERSION
from shoal.fleet.project.file import Project
from tests.unit.cli.typed import paste, typed
from tests.unit.docs.commands import in_shell, in_span, parse, parse_mention

TEMPLATES = Path(shoal.__file__).parent / "templates" / "projects"
FILES = {"README.md", "Dockerfile", ".gitignore", ".dockerignore", "shoal.toml"}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "shop", raising=False)  # scrapers that other tests have loaded


def test_help_has_a_line_for_each_template():
    told = typed("new", "--help").stdout
    folders = {folder.name for folder in TEMPLATES.iterdir()} - {"common", PROPOSED}
    assert folders == set(ProjectTemplate)
    for name in folders:
        assert re.search(rf"^  {name} +\w.{{20,}}", told, re.MULTILINE)


@pytest.mark.parametrize("template", ProjectTemplate)
def test_a_project_is_complete_and_has_its_name_everywhere(template, tmp_path):
    assert typed("new", "night-prices", "--template", template).exit_code == 0
    folder = tmp_path / "night-prices"
    names = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert names >= FILES | {"night_prices.py", "tests/test_night_prices.py"}
    for file in folder.rglob("*"):
        assert file.is_dir() or not re.search("myscraper|SHOAL_VERSION", file.read_text()), file
    assert f"shoal:{VERSION}" in (folder / "Dockerfile").read_text()
    project = Project.find(folder)
    assert list(project.scrapers) == ["night_prices"]
    assert list(folder.glob("tests/pages/*"))
    assert not list(tmp_path.glob(".night*"))


def test_a_secret_is_for_its_owner_and_neither_for_git_nor_for_the_image(tmp_path):
    typed("new", "prices", "-t", "api")
    assert (tmp_path / "prices/.env").stat().st_mode & 0o77 == 0
    for name in (".gitignore", ".dockerignore"):
        assert ".env" in (tmp_path / "prices" / name).read_text().splitlines()


def test_the_closing_lines_say_what_to_type():
    told = typed("new", "prices").stderr
    for command in ("shoal demo --serve", "cd prices", "shoal run prices --out", "python -m pytest"):
        assert command in told


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a b", "cannot be a scraper's name"),
        ("class", "cannot be a scraper's name"),
        ("2fast", "cannot be a scraper's name"),
        ("prïces", "cannot be a scraper's name"),
        ("json", "is the name of a Python module"),
        ("shoal", "is the name of a Python module"),
        ("tests", "is the name of a Python module"),
        ("there", "already exists"),
        ("a file", "cannot be a scraper's name"),
    ],
)
def test_a_bad_name_is_refused_with_a_command_that_works(name, reason, tmp_path):
    (tmp_path / "there").mkdir()
    before = set(tmp_path.rglob("*"))
    told = typed("new", name)
    text = " ".join(told.stderr.split())
    assert told.exit_code == 2 and reason in text
    assert set(tmp_path.rglob("*")) == before
    assert paste(re.search(r"shoal new \S+", text)[0]).exit_code == 0


def test_an_unknown_template_is_refused_with_those_that_there_are():
    told = typed("new", "prices", "--template", "blog")
    assert told.exit_code == 2 and "sitemap" in told.stderr


@pytest.mark.parametrize("template", ProjectTemplate)
def test_every_command_of_a_readme_is_one_that_shoal_has(template):
    text = (TEMPLATES / template / "README.md").read_text()
    found = [words for block in text.split("```")[1::2] for words in in_shell(block)]
    assert len(found) >= 2
    for words in found:
        parse(words)
    for span in re.findall(r"`(shoal [^`\n]+)`", text.replace("```", "")):
        for words in in_span(span):
            parse_mention(words)
