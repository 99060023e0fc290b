"""The recipes of the page on hooks do what they say: what users of Scrapy ask for first."""

import hashlib
import hmac

from tests.integration.engine.origin import Answer, Origin
from tests.unit.docs.pages import DOCS, blocks

PAGE = (DOCS / "how-to" / "hooks.md").read_text()


def scraper_under(heading):
    """Return the scraper that the code under a heading defines."""
    code = next(block.code for block in blocks(PAGE.partition(f"## {heading}\n")[2], "python"))
    names: dict[str, object] = {}
    exec(compile(code, heading, "exec"), names)
    return names["shop"]


async def run(shop, pages, **settings):
    async with Origin(lambda path: Answer(pages[path])) as site:
        site.heads = {}
        site.on_head = lambda path, head: site.heads.update({path: head})
        urls = [f"{site.url}{path}" for path in pages]
        quick = {"rate": None, "robots": False, "allow_private": "127.0.0.1", "progress": False}
        return await shop.run(urls, **quick | settings), site


def fields_of(head):
    lines = (line.partition(":") for line in head.splitlines()[1:])
    return {name.strip().lower(): value.strip() for name, _, value in lines}


async def test_every_request_is_signed(monkeypatch):
    monkeypatch.setenv("SHOP_KEY", "key")
    result, site = await run(scraper_under("Sign every request"), {"/1": "<h1>Lamp</h1>"})
    sent = fields_of(site.heads["/1"])
    text = f"GET {site.url}/1 {sent['x-time']}".encode()
    assert sent["x-signature"] == hmac.new(b"key", text, hashlib.sha256).hexdigest()
    assert len(result.items) == 1


async def test_prices_are_cleaned_in_one_place_and_what_is_free_is_dropped():
    pages = {"/1": "<h1>Lamp</h1><b class=price>£1,200.50</b>", "/2": "<h1>Bag</h1><b class=price>£0</b>"}
    result, _ = await run(scraper_under("Clean and drop items in one place"), pages)
    assert [item["price"] for item in result.items] == [1200.5]
    assert [reject.reason for reject in result.rejects] == ["dropped by on_item free_of_charge"]


async def test_duplicates_are_dropped_by_a_field():
    pages = {f"/{n}": f"<h1>Lamp</h1><b class=sku>{n % 2}</b>" for n in range(4)}
    result, _ = await run(scraper_under("Drop duplicates by a field"), pages)
    assert sorted(item["sku"] for item in result.items) == ["0", "1"]
    assert sorted(reject.reason for reject in result.rejects) == [
        f"sku {n} was on another page" for n in (0, 1)
    ]


async def test_a_site_has_headers_of_its_own():
    shop = scraper_under("Drop duplicates by a field")
    sites = {"127.0.0.1": {"headers": {"Accept-Language": "de"}}, "*": {"headers": {"X-All": "1"}}}
    _, site = await run(shop, {"/1": "<b class=sku>1</b>"}, sites=sites)
    sent = fields_of(site.heads["/1"])
    assert (sent["accept-language"], sent["x-all"]) == ("de", "1")


async def test_a_run_has_a_report_at_its_end(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shop = scraper_under("Begin and end a run")
    shop.step(listing)
    result, _ = await run(shop, {"/1": "one", "/2": "two"})
    (report,) = (tmp_path / "reports").iterdir()
    assert report.name == f"{result.run_id}.json"
    assert report.read_text() == '{"state": "finished", "items": 2, "dead": 0, "token": 1}'


def listing(page):
    yield {"url": page.url}
