"""The page on Python: its examples run, and every way that its table names is there."""

import re

import pytest

from shoal.fleet.app import App
from shoal.fleet.handle import RunHandle
from shoal.web import pages
from tests.unit.docs.commands import in_span, parse_mention
from tests.unit.docs.pages import DOCS, blocks, rows

PAGE = (DOCS / "reference" / "python.md").read_text()
WAYS = list(rows(PAGE, "| what | command | HTTP | Python | pages |"))
SCRAPER = """
from shoal import Scraper, Task

people = Scraper("people", retries=0)

@people.step(fetch=None)
async def person(task: Task):
    yield {"hello": task.payload["name"]}
"""


def example(holding):
    (code,) = [block.code for block in blocks(PAGE, "python") if holding in block.code]
    return code


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "people.py").write_text(SCRAPER)
    (tmp_path / "shoal.toml").write_text('[scrapers]\npeople = "people.py:people"\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def named(cell):
    return cell.strip("`")


def test_the_table_has_every_action():
    assert len(WAYS) >= 25


@pytest.mark.parametrize("row", WAYS, ids=lambda row: row[0])
def test_every_action_has_every_interface_or_it_says_why_not(row, paths):
    _, command, http, python, cell = row
    found = list(in_span(named(command)))
    assert found
    for words in found:
        parse_mention(words)
    assert http.startswith("no: ") or tuple(named(http).split()) in paths
    owner = {"run": RunHandle, "app": App}[named(python).partition(".")[0]]
    assert hasattr(owner, named(python).partition(".")[2])
    assert cell == "yes" or cell.startswith("no: ")


# The page or form of each row; rows without an entry have one at their HTTP path without `/api`.
PAGES = {
    "what is in the response cache": ("GET", "/hosts"),
    "start a run from URLs": ("POST", "/start/run"),
    "from a sitemap": ("POST", "/start/run"),
    "start workers": ("POST", "/runs/{run_id}/start-workers"),
    "change its settings": ("POST", "/runs/{run_id}/settings"),
    "list its settings": ("GET", "/runs/{run_id}"),
    "how much of each field is filled": ("GET", "/runs/{run_id}"),
    "the last runs of its scraper": ("GET", "/runs/{run_id}"),
    "delete": ("POST", "/runs/{run_id}/purge"),
    "replay them": ("POST", "/runs/{run_id}/replay"),
    "drop them": ("POST", "/runs/{run_id}/drop"),
    "edit one": ("POST", "/runs/{run_id}/dead/{letter}/edit"),
    "edit many": ("POST", "/runs/{run_id}/edit"),
    "pause a host": ("POST", "/hosts"),
    "slow a host": ("POST", "/hosts"),
    "resume a host": ("POST", "/hosts"),
    "partitions": ("GET", "/runs/{run_id}"),
    "records": ("GET", "/runs/{run_id}/tasks"),
}


@pytest.mark.parametrize("row", [row for row in WAYS if row[4] == "yes"], ids=lambda row: row[0])
def test_what_the_pages_do_has_a_page(row):
    what, _, http, _, _ = row
    method, path = PAGES.get(what) or named(http).split()
    routers = [part.router for part in vars(pages).values() if hasattr(part, "router")]
    there = {(one, route.path) for router in routers for route in router.routes for one in route.methods}
    assert (method, path.removeprefix("/api")) in there


@pytest.fixture(scope="module")
def paths():
    from shoal.fleet.project.file import Project
    from shoal.web.app import make_app
    from shoal.web.context import WebContext, WebSettings
    from shoal.web.sampler import Sampler

    app = App(None, "sqlite:///none.db", Project(DOCS))
    web = make_app(
        WebContext(app, Sampler(None), WebSettings.read(operator_token="operator-0123456789abcdef"))
    )
    described = web.openapi()["paths"]
    return {(method.upper(), path) for path, methods in described.items() for method in methods}


async def test_the_first_example_gives_the_items(folder, capsys):
    names = {"__name__": "example"}
    exec(example("async def names"), names)
    assert await names["names"](f"sqlite:///{folder}/queue.db") == [{"hello": "ann"}]
    assert " 1 0 shoal work people --run " in capsys.readouterr().out


# They show how to build parts of Shoal into other programs.
EMBEDDING = {"export.md", "logs.md", "serve.md", "fleet.md"}


def test_examples_import_only_what_is_public():
    public = {"shoal", "shoal.testing", "shoal.plugins"}
    others = {
        (page.name, name)
        for page in DOCS.rglob("*.md")
        for name in re.findall(r"^ *(?:from|import) (shoal[\w.]*)", page.read_text(), re.MULTILINE)
        if name not in public and page.name not in EMBEDDING
    }
    assert others == set()
