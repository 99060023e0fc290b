"""Prints of a scraper's own code do not end up in the data of a command."""

import msgspec
import pytest

from tests.unit.cli.typed import typed

SCRAPER = """
from shoal import Scraper

print("at import")
shop = Scraper("shop", mode="distributed")

@shop.seeds
{kind} seeds():
    print("in seeds")
    yield "https://shop.example/"

@shop.step
async def page(page):
    yield {{}}
"""


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_prints_at_import_and_of_seeds_go_to_stderr(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(SCRAPER.format(kind=kind))
    done = typed("enqueue", "shop.py", "--json")
    assert msgspec.json.decode(done.stdout)["enqueued"] == 1
    assert "at import" in done.stderr and "in seeds" in done.stderr
