"""The pages, faults and request log of the shops."""

import re
from html import unescape
from xml.etree import ElementTree

import pytest

from shoal.demo.catalogue import CATEGORIES
from shoal.demo.site import DemoSite
from tests.unit.demo.client import Client

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


async def test_the_listings_lead_to_every_product_and_to_one_forbidden_page(site, client):
    links = await cards(client)
    assert len(links) == len(set(links)) == 101
    assert links.count("/staff/preview") == 1


async def test_every_shop_knows_what_a_scraper_must_find(site):
    assert len(site.products) == 198
    assert site.rejects == {"S0-00031", "S1-00031"}
    assert len(site.seeds) == len(site.hosts) == 2


async def test_a_page_is_as_large_as_those_of_real_shops(site, client):
    sizes = [len((await client.get(f"/p/s0-{number:05d}")).body) for number in range(10)]
    assert 6_000 < min(sizes) <= max(sizes) < 20_000


async def test_a_slow_page_is_delayed(client):
    reply = await client.get("/p/s0-00011")
    assert reply.status == 200
    assert 0.19 < reply.elapsed < 5


@pytest.mark.parametrize(("path", "status"), [("/p/s0-00023", 500), ("/p/s0-00041", 429)])
async def test_a_page_fails_the_first_time_and_then_succeeds(client, path, status):
    replies = [await client.get(path) for _ in range(3)]
    assert [reply.status for reply in replies] == [status, 200, 200]


async def test_a_busy_page_sends_retry_after(client):
    assert (await client.get("/p/s0-00041")).headers["retry-after"] == "1"


async def test_a_moved_product_is_linked_by_its_old_url_which_redirects(client):
    old = [path for path in await cards(client) if path.startswith("/shop/item.php")]
    moved = [await client.get(path) for path in old]
    assert {reply.status for reply in moved} == {301, 302, 307}
    assert (await client.get(moved[0].headers["location"])).status == 200


async def test_broken_pages_have_mismatched_tags(client):
    page = (await client.get("/p/s0-00005")).text
    assert page.count("<p") > page.count("</p>") == 0
    assert page.count("<td") > page.count("</td>") == 0
    assert "</html>" not in page
    assert 'data-sku="S0-00005"' in page


async def test_one_page_declares_a_wrong_charset_and_one_declares_it_in_the_page_only(client):
    wrong, meta_only = await client.get("/p/s0-00029"), await client.get("/p/s0-00079")
    assert wrong.headers["content-type"] == "text/html; charset=utf-8"
    with pytest.raises(UnicodeDecodeError):
        wrong.body.decode()
    assert meta_only.headers["content-type"] == "text/html"
    assert b'<meta charset="windows-1252">' in meta_only.body
    assert "€" in meta_only.body.decode("cp1252")


async def test_robots_forbids_the_staff_pages_and_has_no_crawl_delay(site, client):
    robots = (await client.get("/robots.txt")).text
    assert "Disallow: /staff/" in robots
    assert f"Sitemap: {site.seeds[0]}sitemap.xml" in robots
    assert "crawl-delay" not in robots.lower()


async def test_the_sitemap_lists_every_product(site, client):
    tree = ElementTree.fromstring((await client.get("/sitemap.xml")).body)
    urls = [url.text for url in tree.iterfind(".//{*}loc")]
    assert sum("/p/s0-" in url for url in urls) == 100
    assert all(url.startswith(site.seeds[0]) for url in urls)


async def test_an_unknown_page_is_not_found_and_not_counted_as_a_visit(site, client):
    assert (await client.get("/nothing")).status == 404
    assert not site.log.visits


async def test_the_site_logs_requests_by_host_and_status(site, client):
    for path in ("/", "/p/s0-00023", "/p/s0-00023", "/staff/preview"):
        await client.get(path)
    host = site.hosts[0]
    assert site.log.statuses == {200: 3, 500: 1}
    assert site.log.forbidden == {host: 1}
    assert site.log.visits[f"http://{host}/p/s0-00023"] == 1
    assert [log.requests for log in site.log.hosts.values()] == [4, 0]
    assert 0 < site.log.hosts[host].shortest_gap < 5


async def test_two_sites_serve_the_same_pages(site):
    async with (
        DemoSite(shops=2, products=200) as other,
        Client(site.seeds[1]) as one,
        Client(other.seeds[1]) as two,
    ):
        assert (await one.get("/p/s1-00007")).body == (await two.get("/p/s1-00007")).body


async def test_a_taken_port_leaves_no_shop_open(site):
    taken = int(site.hosts[0].rpartition(":")[2])
    with pytest.raises(OSError, match="in use"):
        async with DemoSite(shops=2, products=2, port=taken - 1):
            pass
