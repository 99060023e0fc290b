"""The pages and faults of the shops, and the server that serves them."""

import json
import re
import signal
import subprocess
import sys
from html import unescape
from xml.etree import ElementTree

import pytest

from shoal.demo.catalogue import CATEGORIES, PageFault, open_shops
from shoal.demo.site import SiteProcess
from tests.unit.demo.client import Client

COMMAND = [sys.executable, "-m", "shoal.demo.site", "--products", "50", "--shops", "2"]
CARD = re.compile(r'class="card product"><h3><a href="([^"]+)"')
NEXT = re.compile(r'rel="next" href="([^"]+)"')


async def cards(client: Client) -> list[str]:
    """Return the links of all cards in all listings of a shop."""
    found: list[str] = []
    for category in CATEGORIES:
        path: str | None = f"/c/{category}/"
        while path:
            page = (await client.get(path)).text
            found += map(unescape, CARD.findall(page))
            path = unescape(next_link[1]) if (next_link := NEXT.search(page)) else None
    return found


def test_the_same_seed_makes_the_same_shops_and_another_makes_others():
    assert open_shops(4, 200, seed=1) == open_shops(4, 200, seed=1) != open_shops(4, 200, seed=2)
    shops = open_shops(3, 100, seed=1)
    assert [len(shop.products) for shop in shops] == [34, 33, 33]
    assert len({product.sku for shop in shops for product in shop.products}) == 100
    (shop,) = open_shops(1, 100, seed=1)
    assert {product.fault for product in shop.products} == {None, *PageFault}
    assert open_shops(1, 1, seed=1)[0].listings["stationery"] == [[]]


async def test_the_listings_lead_to_every_product_and_to_one_forbidden_page(site, client):
    links = await cards(client)
    assert len(links) == len(set(links)) == 101
    assert links.count("/staff/preview") == 1
    assert len(site.products) == 198  # and one in each shop without a price
    moved = [await client.get(path) for path in links if path.startswith("/shop/item.php")]
    assert {reply.status for reply in moved} == {301, 302, 307}
    assert (await client.get(moved[0].headers["location"])).status == 200


@pytest.mark.parametrize(("path", "status"), [("/p/s0-00023", 500), ("/p/s0-00041", 429)])
async def test_a_page_fails_the_first_time_and_then_succeeds(client, path, status):
    replies = [await client.get(path) for _ in range(3)]
    assert [reply.status for reply in replies] == [status, 200, 200]
    assert status != 429 or replies[0].headers["retry-after"] == "1"


async def test_broken_pages_have_mismatched_tags(client):
    page = (await client.get("/p/s0-00005")).text
    assert page.count("<p") > page.count("</p>") == 0
    assert "</html>" not in page and 'data-sku="S0-00005"' in page


async def test_robots_forbids_the_staff_pages_and_the_sitemap_lists_every_product(site, client):
    robots = (await client.get("/robots.txt")).text
    assert "Disallow: /staff/" in robots and f"Sitemap: {site.seeds[0]}sitemap.xml" in robots
    tree = ElementTree.fromstring((await client.get("/sitemap.xml")).body)
    urls = [url.text for url in tree.iterfind(".//{*}loc")]
    assert sum(url.startswith(f"{site.seeds[0]}p/s0-") for url in urls) == 100


async def test_the_site_counts_its_responses(site, client):
    for path in ("/", "/p/s0-00023", "/p/s0-00023", "/nothing", "/c/lamps/?page=99", "/js/p/none"):
        await client.get(path)
    assert site.statuses == {200: 2, 500: 1, 404: 3}
    assert site.visits[f"{site.seeds[0]}p/s0-00023"] == 1


def test_the_process_of_a_site_serves_until_its_stdin_closes_or_on_sigterm():
    with SiteProcess(shops=2, products=50) as site:
        assert len(site.seeds) == len(site.hosts) == 2 and len(site.products) == 50
    with subprocess.Popen([*COMMAND, "--json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert len(json.loads(process.stdout.readline())["seeds"]) == 2
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def test_a_taken_port_is_an_error_that_says_what_to_type():
    with SiteProcess(shops=1, products=1) as site:
        port = site.hosts[0].rpartition(":")[2]
        done = subprocess.run(
            [*COMMAND, "--port", port], input="", capture_output=True, text=True, timeout=30
        )
    assert done.returncode == 1
    assert "--port 0" in done.stderr and "Traceback" not in done.stderr
