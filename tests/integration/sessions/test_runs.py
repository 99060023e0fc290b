"""Pages for members, by real workers: visitors log in through the form, and are replaced when turned away."""

import random

import pytest

from tests.cases import long
from tests.integration.sessions.site import LOGIN_FORM, PASSWORD, MembersShop, make_page

SCRAPER = """
    import os

    shop = Scraper("shop", rate=None, {settings})

    @shop.login
    async def log_in(session):
        form = await session.get("{url}/login")
        page = await session.post(
            "{url}/login",
            form={{"password": os.environ["SHOP_PASSWORD"], "csrf": form.attr("input[name=csrf]", "value")}},
        )
        return "/home" in page.url

    @shop.step
    async def page(page: Page):
        yield {{"title": page.text("h1")}}
"""


@pytest.fixture(autouse=True)
def password(monkeypatch):
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)


async def run(bench, shop, count, settings, workers=1):
    settings += "" if "robots" in settings else ", robots=False"
    code = SCRAPER.format(url=shop.url, settings=settings)
    return await bench.run(code, [f"{shop.url}/p/{number}" for number in range(count)], workers=workers)


def kept(bench):
    return b"".join(
        file.read_bytes() for file in bench.folder.rglob("*") if file.suffix != ".py" and file.is_file()
    )


async def test_every_page_is_asked_for_by_a_member(bench):
    async with MembersShop() as shop:
        summary = await run(bench, shop, 60, "sessions=3", workers=2)
    assert (summary.snapshot.stats.completed, summary.snapshot.stats.dead) == (60, 0)
    assert shop.strangers == 0
    assert 2 <= len(shop.pages) <= 6  # three of each worker, as they are needed
    assert PASSWORD.encode() not in kept(bench)
    assert not any(member.encode() in kept(bench) for member in shop.pages)


async def test_a_blocked_session_is_replaced_and_the_run_goes_on(bench):
    async with MembersShop(per_visitor=15) as shop:
        summary = await run(bench, shop, 60, "sessions='2 max_uses=14'")
    assert (summary.snapshot.stats.completed, summary.snapshot.stats.dead) == (60, 0)
    assert len(shop.pages) >= 5
    assert max(shop.pages.values()) <= 15


async def test_a_session_that_was_logged_out_logs_in_again_without_using_an_attempt(bench):
    async with MembersShop() as shop:
        witness = bench.witness

        def meddle(snapshot, pool):
            if snapshot.stats.completed > 10 and not shop.strangers:
                shop.log_out_all()

        witness.on_saw = meddle
        summary = await run(bench, shop, 300, "sessions=2, retries=0, per_host=2")
    assert shop.strangers > 0
    assert (summary.snapshot.stats.completed, summary.snapshot.stats.dead) == (300, 0)
    assert summary.ending.tally.postponed["NoSession"] == shop.strangers


ENDINGS = {
    "redirect": make_page(302, "", "Location: /login?next=/p"),
    "form": make_page(200, LOGIN_FORM),
    "status 400": make_page(400, '{"error": "Please log in"}'),
}


@pytest.mark.parametrize(("ending", "size"), [("redirect", 1), ("form", 2), *long(("status 400", 1))])
async def test_however_a_site_ends_sessions_every_page_is_fetched_by_a_member(bench, ending, size):
    lifetimes = random.Random(f"{ending} {size}")
    async with MembersShop(ending=ENDINGS[ending], lifetime=lambda: lifetimes.randint(3, 25)) as shop:
        settings = f"sessions={size}, block='Please log in', robots=True, per_host=1"
        summary = await run(bench, shop, 60, settings)
        items = await bench.items(summary.run.id)
    stats = summary.snapshot.stats
    assert sorted(item["title"] for item in items) == sorted(f"/p/{number}" for number in range(60))
    assert (stats.completed, stats.dead) == (60, 0)
    assert len(shop.logins) > 60 // 25
    assert shop.strangers <= len(shop.logins)


async def test_a_page_that_no_member_may_see_is_a_dead_letter_and_takes_few_logins(bench):
    hidden = frozenset({"/p/3", "/p/30"})
    async with MembersShop(ending=ENDINGS["redirect"], hidden=hidden) as shop:
        summary = await run(bench, shop, 60, "sessions=1, per_host=1")
        dead = await bench.dead(summary.run.id)
    assert {letter.task.url.removeprefix(shop.url) for letter in dead} == hidden
    assert all("login page" in letter.error for letter in dead)
    assert summary.snapshot.stats.completed == 58
    assert len(shop.logins) <= 1 + 2 * 4


@pytest.mark.long
async def test_a_login_that_fails_is_not_hammered_and_no_task_is_charged(bench):
    async with MembersShop(refuses=1, login_takes=0.1) as shop:
        summary = await run(bench, shop, 30, "sessions=5, retries=0")
    assert (summary.snapshot.stats.completed, summary.snapshot.stats.dead) == (30, 0)
    assert shop.most_logins == 1
    assert shop.logins[1] - shop.logins[0] > 4.5
    assert shop.strangers == 0


async def test_a_session_keeps_one_browser_profile(bench):
    async with MembersShop() as shop:
        await run(bench, shop, 40, "sessions='2 profile=chrome,firefox'")
    agents = [next(iter(seen)) for seen in shop.agents.values()]
    assert all(len(seen) == 1 for seen in shop.agents.values())
    assert {"Chrome/" in agent for agent in agents} == {True, False}
