"""Runs that use a browser, from the command line to the results, with real workers."""

import asyncio
import json
import os
import signal

import pytest

from shoal.demo.catalogue import open_shops
from shoal.demo.site import DemoSite
from shoal.fetch.browser.process import process_tree
from tests.integration.browser.test_ends import gone
from tests.integration.browser.test_pages import html
from tests.integration.engine.shell import start, typed

SCRAPER = """
from shoal import Page, Scraper

shop = Scraper("shop", rate=None, {settings})

@shop.step
async def product(page: Page):
    {step}
"""
PLAIN = 'yield {"name": page.text("h1"), "price": page.text(".price")}'


pytestmark = pytest.mark.usefixtures("program")


@pytest.fixture
async def shops():
    async with DemoSite(shops=1, products=30) as site:
        (shop,) = open_shops(1, 30, 2026)
        yield site, {f"{site.seeds[0]}js/p/{one.sku.lower()}": one for one in shop.products}


async def run(folder, urls, *options, settings="", step=PLAIN, file="shop.py", queue="shoal.db"):
    (folder / file).write_text(SCRAPER.format(settings=settings, step=step))
    (folder / "urls.txt").write_text("\n".join(urls))
    words = ["run", file, "--urls-file", "urls.txt", "--allow-private", "127.0.0.0/8", "--json", *options]
    ended = await typed(*words, "--queue", f"sqlite:///{queue}", "--out", "out.jsonl", folder=folder)
    assert ended.out, ended.err
    items = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    return ended.rows[-1], items


async def test_pages_that_scripts_write_are_scraped(shops, tmp_path):
    site, products = shops
    options = ["--fetch", "auto", "--set", "browser=#root.ready context=session"]
    ended, items = await run(tmp_path, products, *options)
    assert (ended["completed"], ended["dead"]) == (30, 0)
    wanted = {(one.name, one.price) for one in products.values()}
    assert {(item["name"], item["price"]) for item in items} == wanted
    frames = sum(count for url, count in site.visits.items() if "/js/p/" in url)
    # A few pages are fetched twice: those in flight before the site was known.
    assert 31 <= frames <= 30 + 16 + 4


async def test_a_page_that_is_whole_is_not_fetched_by_a_browser(shops, tmp_path):
    site, _ = shops
    ended, _ = await run(tmp_path, [f"{site.seeds[0]}help/"], "--fetch", "auto")
    assert (ended["completed"], site.statuses.total()) == (1, 2)  # and robots.txt


@pytest.mark.long
async def test_a_step_uses_the_page_and_every_tab_is_given_back(shops, tmp_path):
    _, products = shops
    step = """name = await page.browser.evaluate("document.querySelector('h1').textContent")
    if page.task.url.endswith(("1", "2", "3")): raise LookupError("half-way")
    yield {"name": name, "price": page.text(".price")}"""
    settings = "fetch='browser', browser='#root.ready tabs=2', retries=0"
    ended, items = await run(tmp_path, products, settings=settings, step=step)
    failing = sum(url.endswith(("1", "2", "3")) for url in products)
    # With two tabs, thirty pages complete only if failed ones release their tabs too.
    assert (ended["dead"], len(items)) == (failing, 30 - failing) and failing > 2


@pytest.mark.long
async def test_a_step_without_a_live_page_gets_an_error(shops, tmp_path):
    _, products = shops
    url = next(iter(products))
    for name, settings, step, says in (
        ("http", "", "page.browser", "Set fetch='browser' on its step"),
        ("sync", "fetch='browser', browser='load'", "page.browser", "defined with 'async def'"),
    ):
        (tmp_path / name).mkdir()
        code = SCRAPER.format(settings=settings + (", " if settings else "") + "retries=0", step=step)
        if name == "sync":
            code = code.replace("async def", "def")
        (tmp_path / name / "shop.py").write_text(code)
        words = ["--url", url, "--queue", "sqlite:///shoal.db", "--json"]
        ended = await typed("run", "shop.py", *words, folder=tmp_path / name)
        run_id = ended.rows[-1]["run_id"]
        dead = await typed(
            "dead", "list", run_id, "--queue", "sqlite:///shoal.db", "--json", folder=tmp_path / name
        )
        assert says in dead.out


@pytest.mark.long
async def test_a_hung_page_costs_one_attempt_and_the_others_are_fetched(tmp_path, origin):
    urls = [origin.on(f"/{number}", html(f"<h1>{number}</h1>")) for number in range(6)]
    urls.append(origin.on("/hang", html("<script>while (true) {}</script>")))
    settings = "fetch='browser', browser='load', retries=1, timeout=5, robots=False"
    ended, items = await run(tmp_path, urls, settings=settings)
    assert {item["name"] for item in items} == set("012345")
    assert ended["dead"] == 1
    assert origin.paths.count("/hang") == 2


async def test_redirects_obey_scope_and_robots(tmp_path, origin):
    origin.on("/robots.txt", html("User-agent: *\nDisallow: /staff/"))
    origin.on("/staff/door", html("<h1>staff"))
    urls = [
        origin.on("/a", html("<meta http-equiv=refresh content='0;url=/staff/door'>")),
        origin.on("/b", html(f"<script>location = '{origin.url('/out', host='localhost')}'</script>")),
    ]
    ended, items = await run(tmp_path, urls, settings="fetch='browser', browser='idle'")
    assert (ended["dead"], items) == (2, [])
    assert not {"/staff/door", "/out"} & set(origin.paths)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs Chromium without its sandbox")
async def test_a_run_as_root_warns_once_that_the_sandbox_is_missing(tmp_path, origin):
    url = origin.on("/", html("<h1>one</h1>"))
    settings = "fetch='browser', browser='load', robots=False, allow_private='127.0.0.0/8'"
    (tmp_path / "shop.py").write_text(SCRAPER.format(settings=settings, step=PLAIN))
    words = ["--url", url, "--workers", 2, "--queue", "sqlite:///shoal.db", "--log-dir", "logs"]
    ended = await typed("run", "shop.py", *words, folder=tmp_path)
    assert (ended.code, ended.err.count("without its sandbox")) == (0, 1)
    assert (tmp_path / "logs" / "fleet.log").read_text().count("without its sandbox") == 1


async def test_check_says_what_browser_there_is(tmp_path):
    (tmp_path / "shop.py").write_text(SCRAPER.format(settings="fetch='browser'", step=PLAIN))
    told = await typed("check", "shop.py", "--json", folder=tmp_path)
    assert any("Chrome/" in json.dumps(row) and "starts" in json.dumps(row) for row in told.rows)


async def test_a_run_without_a_browser_says_what_to_install(tmp_path, origin):
    (tmp_path / "shop.py").write_text(SCRAPER.format(settings="fetch='browser'", step=PLAIN))
    words = ["run", "shop.py", "--url", origin.url("/"), "--queue", "sqlite:///shoal.db"]
    ended = await typed(*words, folder=tmp_path, SHOAL_CHROMIUM="/nowhere")
    assert ended.code != 0
    assert "There is no program at /nowhere. Install one: apt-get install" in ended.err + ended.out


@pytest.mark.long
async def test_a_recording_of_a_browser_is_played_back_without_one(shops, tmp_path):
    site, products = shops
    urls = list(products)[:3]
    settings = "fetch='browser', browser='#root.ready'"
    _, items = await run(tmp_path, urls, "--warc", "crawl.warc.gz", settings=settings)
    asked = site.statuses.total()
    _, again = await run(tmp_path, urls, "--playback", "crawl.warc.gz", settings=settings, queue="again.db")
    assert sorted(map(str, items)) == sorted(map(str, again)) and len(again) == 3
    assert site.statuses.total() == asked


async def test_a_killed_fleet_leaves_no_process_behind(tmp_path, origin):
    (tmp_path / "shop.py").write_text(
        SCRAPER.format(settings="fetch='browser', browser='#never', robots=False", step=PLAIN)
    )
    urls = [origin.on(f"/{number}", html("<p>")) for number in range(4)]
    (tmp_path / "urls.txt").write_text("\n".join(urls))
    words = ["run", "shop.py", "--urls-file", "urls.txt", "--queue", "sqlite:///shoal.db"]
    process = await start(*words, "--allow-private", "127.0.0.0/8", folder=tmp_path)
    async with asyncio.timeout(30):
        while len(set(origin.paths)) < 4:
            await asyncio.sleep(0.1)
    everybody = process_tree(process.pid)
    assert len(everybody) > 5
    os.killpg(process.pid, signal.SIGKILL)  # Chromium has its own process group, and is not meant here
    await process.wait()
    assert await gone(everybody) == []
