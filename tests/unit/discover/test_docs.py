"""The examples of docs/how-to/sources.md run, and its settings can be read."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from shoal.discover.routing import Routes
from shoal.queue.open import open_queue
from tests.unit.discover.site import Site, urlset

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "sources.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
async def test_an_example_runs(number, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("pages.csv").write_text("link,state\nhttps://example.com/news/1,CA\nnonsense,NY\n")
    site = Site({"https://example.com/sitemap.xml": urlset("https://example.com/2")})
    async with open_queue(f"sqlite:///{tmp_path}/queue.db") as queue:
        names = {"queue": queue, "run": await queue.start_run("books"), "fetcher": site}
        code = compile(EXAMPLES[number], "sources.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if (waiting := eval(code, names)) is not None:
            await waiting
    if "report" in names:
        assert capsys.readouterr().out.startswith("2 added, 1 refused, []")
        assert '"where":"pages.csv:3"' in Path("rejects.jsonl").read_text()


def test_the_rules_are_read_as_they_are_described():
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    routes = Routes.read(tomllib.loads(text)["routes"])
    assert [(rule, field) for rule, field, _ in routes.explain("https://example.com/news/1")] == [
        (1, "priority"),
        (1, "ttl"),
    ]
    assert {field for _, field, _ in routes.explain("https://www.example.com/x.pdf?y")} == {"step", "ttl"}
