"""What users are given for their own tests."""

import pytest

import shoal.testing
from shoal import Page, Scraper, Task
from shoal.core.errors import InvalidInput
from shoal.core.http import Headers, Request, Response
from shoal.export.archive.warc import WarcWriter

SITE = "https://shop.test"

shop = Scraper("shop", rate="1/s", retries=3)


@shop.step
async def listing(page: Page):
    for link in page.links("a"):
        yield page.follow(link, step=product)
    yield page.follow(page.attr("a.next", "href"))


@shop.step
def product(page: Page):
    return {"title": page.text("h1"), "from": page.payload.get("from"), "path": page.url.removeprefix(SITE)}


@shop.step(fetch=None)
async def total(task: Task):
    yield {"sum": sum(task.payload["numbers"])}


async def record(folder, **pages):
    """Record a site: paths by name, with their HTML or a status."""
    writer = WarcWriter.open(folder / "shop.warc.gz", user_agent="shoal")
    for name, page in pages.items():
        url = f"{SITE}/{'' if name == 'front' else name}"
        fields = Headers([("content-type", "text/html")])
        status, body = (page, b"") if isinstance(page, int) else (200, page.encode())
        await writer.write(Request(url=url), Response(url=url, status=status, headers=fields, body=body))
    await writer.close()
    return folder / "shop.warc.gz"


async def test_a_step_runs_on_a_page_that_was_never_fetched():
    page = shoal.testing.page("<h1>Blue&nbsp;hat</h1>", url=f"{SITE}/hat", payload={"from": "front"})
    harvest = await shoal.testing.run_step(product, page)
    assert harvest.items == [{"title": "Blue hat", "from": "front", "path": "/hat"}]


async def test_links_that_are_followed_lead_to_the_steps_they_would():
    html = "<a href=/hat>x</a><a href=http://other.test/>x</a><a class=next href=?page=2>next</a>"
    harvest = await shoal.testing.run_step(listing, shoal.testing.page(html, url=SITE))
    assert [(task.url, task.step) for task in harvest.follow] == [
        (f"{SITE}/hat", "product"),
        (f"{SITE}/?page=2", "product"),
        (f"{SITE}/?page=2", "listing"),
    ]
    assert harvest.dropped == {"out of scope": 1}


async def test_a_step_that_handles_tasks_is_handed_one():
    harvest = await shoal.testing.run_step(total, Task(step="total", payload={"numbers": [1, 2]}))
    assert harvest.items == [{"sum": 3}]
    with pytest.raises(InvalidInput, match="handles tasks"):
        await shoal.testing.run_step(total, shoal.testing.page(""))


async def test_a_whole_run_comes_from_a_recording(tmp_path):
    file = await record(
        tmp_path, front="<a href=/hat>x</a><a href=/hat>y</a><a href=/cap>z</a>", hat="<h1>Hat</h1>", cap=500
    )
    gave = shoal.testing.playback(shop, file)
    assert gave.items == [{"title": "Hat", "from": None, "path": "/hat"}]
    assert [(letter.task.url, letter.error[:10]) for letter in gave.dead] == [(f"{SITE}/cap", "HttpStatus")]


async def test_a_playback_begins_where_it_is_told_to(tmp_path):
    file = await record(tmp_path, front="<a href=/hat>x</a>", hat="<h1>Hat</h1>")
    gave = shoal.testing.playback(
        shop, file, tasks=[Task(url=f"{SITE}/hat", step="product", payload={"from": "me"})]
    )
    assert [item["from"] for item in gave.items] == ["me"]
    missing = shoal.testing.playback(shop, file, urls=[f"{SITE}/scarf"])
    assert "NotRecorded" in missing.dead[0].error


async def test_robots_txt_counts_as_recorded(tmp_path):
    file = tmp_path / "shop.warc.gz"
    await record(tmp_path, front="<a href=/hat>x</a>", **{"robots.txt": "User-agent: *\nDisallow: /hat"})
    gave = shoal.testing.playback(shop, file)
    assert gave.left_out["forbidden by robots.txt"].count == 1 and not gave.dead
    seeded = shoal.testing.playback(shop, file, tasks=[Task(url=f"{SITE}/hat", step="product")])
    assert "RobotsDenied" in seeded.dead[0].error


async def test_a_playback_may_be_limited(tmp_path):
    file = await record(tmp_path, front="<a href=/hat>x</a>", hat="<h1>Hat</h1>")
    assert shoal.testing.playback(shop, file, max_pages=1).state == "partial"
