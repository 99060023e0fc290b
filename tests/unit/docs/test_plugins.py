"""The page on plugins: its package is installed, and every part of it works."""

import asyncio
import json
import tomllib
from pathlib import Path

import pytest

from shoal.cli.commands.project.show import plugin_rows
from tests.integration.engine.origin import Answer, Origin
from tests.integration.engine.shell import typed
from tests.packages import install
from tests.unit.docs.pages import DOCS, blocks

PAGE = (DOCS / "how-to" / "plugins.md").read_text()
MODULES = dict(
    zip(
        ("exporter", "source", "fetcher", "command"),
        (block.code for block in blocks(PAGE, "python")),
        strict=True,
    )
)
(PROJECT,) = (block.code for block in blocks(PAGE, "toml"))
SCRAPER = """
from shoal import Scraper

pages = Scraper("pages", rate=None, robots=False)

@pages.step(fetch="gateway")
def page(page):
    yield {"number": page.payload["number"], "title": page.text("h1"), "url": page.url}
"""


def write_modules(folder: Path) -> None:
    package = folder / "shoal_extras"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for name, code in MODULES.items():
        (package / f"{name}.py").write_text(code)


@pytest.fixture
def folder(tmp_path):
    """The folder where packages are installed."""
    made = tmp_path / "installed"
    made.mkdir()
    return made


@pytest.fixture
def package(folder):
    write_modules(folder)
    return install(folder, "shoal-extras", tomllib.loads(PROJECT)["project"]["entry-points"])


async def test_the_exporter_the_source_the_fetcher_and_the_command_work(package, tmp_path):
    (tmp_path / "pages.py").write_text(SCRAPER)
    async with Origin(lambda path: Answer(f"<h1>{path}</h1>")) as site:
        environment = {"PYTHONPATH": str(package), "GATEWAY": f"{site.url}/gateway"}
        options = ("--allow-private", f"127.0.0.1:{site.port}", "--out", "items.md")
        source = f"numbered:{site.url}/p/1-3"
        ran = await typed("run", "pages.py", "--source", source, *options, folder=tmp_path, **environment)
    assert ran.code == 0, ran.err
    lines = sorted((tmp_path / "items.md").read_text().splitlines())
    assert len(lines) == 3 and lines[0].startswith("- **number** 1, **title** /gateway?url=http%3A%2F%2F127")
    assert lines[0].endswith(f"**url** {site.url}/p/1")
    assert all(path.startswith("/gateway?url=") for path in site.visits)
    counted = await typed("count", folder=tmp_path, **environment)
    assert (counted.code, counted.out.strip()) == (0, "3"), counted.err


async def test_the_list_and_the_help_name_what_is_installed(package, tmp_path):
    where = {"folder": tmp_path, "PYTHONPATH": str(package)}
    listed, shown = await asyncio.gather(typed("plugins", "--json", **where), typed("--help", **where))
    assert [
        (row["kind"], row["name"], row["package"], row["version"], row["state"]) for row in listed.rows
    ] == [
        ("exporter", "md", "shoal-extras", "1.0", "ready"),
        ("source", "numbered", "shoal-extras", "1.0", "ready"),
        ("fetcher", "gateway", "shoal-extras", "1.0", "ready"),
        ("command", "count", "shoal-extras", "1.0", "ready"),
    ]
    assert "count     From shoal-extras 1.0" in shown.out


async def test_what_cannot_be_used_is_said_in_the_list_in_the_check_and_when_it_is_used(folder, tmp_path):
    names = {
        "shoal.commands": {"run": "bad_plugin:run", "odd": "bad_plugin:odd"},
        "shoal.queues": {"etcd": "bad_plugin:queue"},
        "shoal.exporter": {"md": "bad_plugin:md"},
    }
    install(folder, "bad", names, bad_plugin="import nothing_like_this")
    where = {"folder": tmp_path, "PYTHONPATH": str(folder)}
    listed, checked, used, queued = await asyncio.gather(
        typed("plugins", "--json", **where),
        typed("check", "--json", **where),
        typed("odd", **where),
        typed("runs", "--queue", "etcd://here", "--json", **where),
    )
    says = {(row["kind"], row["name"]): row["says"] for row in listed.rows}
    assert "is built in and cannot be replaced" in says["command", "run"]
    assert "No module named 'nothing_like_this'" in says["command", "odd"]
    assert "there is no group 'shoal.exporter'" in says["shoal.exporter", "md"]
    assert {row["state"] for row in listed.rows} == {"refused"}
    assert len([row for row in checked.rows if row["what"] == "plugins"]) == 4
    assert used.code == 2 and "The command 'odd' of the package bad 1.0 cannot be used" in used.err
    assert queued.code == 2 and json.loads(queued.out)["error"] == "PluginFailed"


ODD = """
from shoal.plugins import Exporter, Writer
def three(one, two, three): ...
def not_async(address, timeout): ...
def two(one, two): ...
class Fetches:
    def __init__(self, options): ...
class NoWriter:
    def __init__(self, target, options): ...
class NotAFunction: ...
def wants(run: three): ...
exporter = Exporter(open_file=lambda target: None)
kind = Exporter(open_address=NoWriter)
"""


def test_a_plugin_of_the_wrong_type_or_signature_is_refused_with_the_reason(tmp_path, monkeypatch):
    names = {
        "shoal.queues": {"q1": "odd_plugin:three", "q2": "odd_plugin:not_async", "q3": "odd_plugin:Exporter"},
        "shoal.exporters": {"e1": "odd_plugin:exporter", "e2": "odd_plugin:kind", "e3": "odd_plugin:two"},
        "shoal.sources": {"s1": "odd_plugin:three", "s2": "odd_plugin:exporter"},
        "shoal.fetchers": {"f1": "odd_plugin:two", "f2": "odd_plugin:Fetches"},
        "shoal.commands": {"c1": "odd_plugin:NotAFunction", "c2": "odd_plugin:wants"},
    }
    monkeypatch.syspath_prepend(install(tmp_path, "odd", names, odd_plugin=ODD))
    rows = plugin_rows()
    says = {row["name"]: row["says"] for row in rows if row["state"] == "refused"}
    assert len(says) == len(rows) == 12
    assert "and cannot be called with 2 arguments: missing a required argument: 'three'" in says["q1"]
    assert says["q2"].endswith("and is not async")
    assert "its open_file must take a target and ExportOptions" in says["e1"]
    assert "must be a subclass of shoal.plugins.Writer" in says["e2"]
    assert "it must be a shoal.plugins.Exporter" in says["e3"]
    assert "is of type Exporter" in says["s2"]
    assert "cannot be called with one argument" in says["f1"]
    assert "has no async method fetch" in says["f2"]


QUEUE = """
from shoal.plugins import Queue
from shoal.queue.open import load_backend

def delegate(name):
    def call(self, *given, **named):
        return getattr(self.inner, name)(*given, **named)
    return call

class OwnQueue(Queue):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

# The verbs of the contract and nothing else: what Shoal needs of a queue is in there.
OwnQueue = type("OwnQueue", (OwnQueue,), {name: delegate(name) for name in Queue.__abstractmethods__})

async def open_own(address, timeout):
    file = "sqlite:" + address.partition(":")[2]
    return OwnQueue(await load_backend(file)(file, timeout))

async def open_nothing(address, timeout):
    return {}
"""
PLAIN = """
from shoal import Scraper
pages = Scraper("pages", rate=None, robots=False)

@pages.step
def page(page):
    yield {"title": page.text("h1")}
"""


async def test_a_queue_of_a_plugin_runs_a_scraper_with_workers_and_is_looked_at(folder, tmp_path):
    names = {"shoal.queues": {"own": "own_queue:open_own", "none": "own_queue:open_nothing"}}
    install(folder, "own", names, own_queue=QUEUE)
    (tmp_path / "pages.py").write_text(PLAIN)
    queue, where = f"own:///{tmp_path}/q.db", {"folder": tmp_path, "PYTHONPATH": str(folder)}
    async with Origin(lambda path: Answer(f"<h1>{path}</h1>")) as site:
        urls = [word for number in range(8) for word in ("--url", f"{site.url}/{number}")]
        options = ("--queue", queue, "--workers", "2", "--out", "items.jsonl")
        ran = await typed("run", "pages.py", *urls, *options, **where)
    assert ran.code == 0, ran.err
    titles = {json.loads(line)["title"] for line in (tmp_path / "items.jsonl").read_text().splitlines()}
    assert titles == {f"/{number}" for number in range(8)}
    status, nothing = await asyncio.gather(
        typed("status", "--queue", queue, "--json", **where),
        typed("runs", "--queue", "none://here", **where),
    )
    assert json.loads(status.out)["completed"] == 8
    assert nothing.code == 2 and "none:// is of a plugin that returned a dict, no Queue" in nothing.err


ADDRESSES = """
from pathlib import Path
from shoal.plugins import Exporter, Writer

class Lines(Writer):
    def __init__(self, address, options):
        self._rows, self._key = [], options.key
    def write(self, items):
        self._rows += [f"{item.data['title']} {list(self._key)}" for item in items]
    def close(self):
        Path("written.txt").write_text("\\n".join(self._rows))
    def discard(self):
        pass

exporter = Exporter(open_address=Lines)
"""


async def test_items_are_written_to_an_address_of_a_plugin_and_its_password_is_hidden(folder, tmp_path):
    (folder / "box_plugin.py").write_text(ADDRESSES)
    install(folder, "shoal-box", {"shoal.exporters": {"box": "box_plugin:exporter"}})
    (tmp_path / "pages.py").write_text(
        SCRAPER.replace("page.payload", "{'number': 1}").replace("gateway", "http")
    )
    async with Origin(lambda path: Answer(f"<h1>{path}</h1>")) as site:
        where = {"folder": tmp_path, "PYTHONPATH": str(folder)}
        options = ("--allow-private", f"127.0.0.1:{site.port}", "--out", "box://me:hush@host/a")
        ran = await typed("run", "pages.py", "--url", f"{site.url}/p", *options, **where)
        assert ran.code == 0, ran.err
        assert (tmp_path / "written.txt").read_text() == "/p []"
        assert "Results:  box://" in ran.err and "hush" not in ran.err
        exported = await typed("export", "newest", "--to", "box://me:hush@host/a", "--key", "url", **where)
    assert exported.code == 0 and "hush" not in exported.err + exported.out, exported.err
    assert (tmp_path / "written.txt").read_text() == "/p ['url']"
