"""Every template of `shoal new` works at once: its tests pass, and it scrapes the demo site."""

import asyncio
import json
import os
import subprocess
import sys

import pytest

from shoal.cli.commands.crawl.demo import PRACTICE_PRODUCTS
from shoal.cli.commands.project.new import write_project
from shoal.core.errors import ShoalError
from shoal.demo.site import DemoSite
from shoal.fetch.browser.process import find_chromium
from tests.cases import long

# Items that each of them finds on the site.
ITEMS = {
    "shop": 149,
    "sitemap": 155,
    "api": 149,
    "browser": 24,
    "login": 40,
}
EXITS = {"browser": 6}  # it stops at max_pages


@pytest.fixture
async def site():
    async with DemoSite(1, PRACTICE_PRODUCTS) as site:
        yield site


def run(folder, *words):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def require_chromium():
    try:
        find_chromium()
    except ShoalError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


def point_to(site, folder):
    """Have a project scrape this site in place of the one on the usual port."""
    for file in [*folder.glob("*.py"), folder / "shoal.toml"]:
        file.write_text(file.read_text().replace("127.0.0.1:8800", site.hosts[0]))


@pytest.mark.parametrize("template", ["api", *long("shop", "sitemap", "browser", "login")])
async def test_a_template_works_at_once(template, site, tmp_path):
    if template == "browser":
        require_chromium()
    folder = tmp_path / "first"
    write_project(template, folder, "first")
    tested = await asyncio.to_thread(run, folder, "pytest", "-q", "-p", "no:cacheprovider")
    assert tested.returncode == 0, tested.stdout
    point_to(site, folder)
    words = ["run", "first", "--out", "items.jsonl", "--set", "rate=none"]
    ran = await asyncio.to_thread(run, folder, "shoal", *words)
    assert ran.returncode == EXITS.get(template, 0), ran.stderr
    assert len((folder / "items.jsonl").read_text().splitlines()) == ITEMS[template]


async def test_a_scraper_that_is_proposed_from_a_page_works_at_once(site, tmp_path):
    start = f"http://{site.hosts[0]}/c/kitchen/"
    made = await asyncio.to_thread(run, tmp_path, "shoal", "new", "first", "--from", start)
    assert "gives 0 items and 25 links" in made.stderr, made.stderr
    folder = tmp_path / "first"
    tested = await asyncio.to_thread(run, folder, "pytest", "-q", "-p", "no:cacheprovider")
    assert tested.returncode == 0, tested.stdout
    words = ["run", "first", "--out", "items.jsonl", "--set", "rate=none", "--set", "max_pages=9"]
    ran = await asyncio.to_thread(run, folder, "shoal", *words)
    first = json.loads((folder / "items.jsonl").read_text().splitlines()[0])
    assert {"url", "name", "price"} == first.keys() and all(first.values()), ran.stderr


async def test_a_url_alone_gives_what_any_page_has(site, tmp_path):
    start = f"http://{site.hosts[0]}/p/s0-00001"
    ran = await asyncio.to_thread(run, tmp_path, "shoal", "run", start)
    item = json.loads(ran.stdout)
    assert (item["url"], item["data"][0]["@type"]) == (start, "https://schema.org/Product")
    assert item["title"] and item["text"] and f"http://{site.hosts[0]}/" in item["links"]
    assert f"Scraper:  shoal new NAME --from {start}" in ran.stderr
    more = ("-a", "follow=yes", "--set", "max_pages=3", "--out", "all.jsonl", "--set", "rate=none")
    await asyncio.to_thread(run, tmp_path, "shoal", "run", start, *more)
    assert len((tmp_path / "all.jsonl").read_text().splitlines()) >= 3
