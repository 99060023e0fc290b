"""Real runs over a site that changes between nights: warnings, outcomes and exit codes."""

import json

import pytest

from shoal import connect
from shoal.cli.exits import Exit
from shoal.core.run_outcome import RunOutcome
from tests.integration.engine.origin import Answer
from tests.integration.engine.shell import typed

SHOP = """
from shoal import Page, Scraper

shop = Scraper("shop", rate=None, robots=False, per_host=50{settings})

@shop.step
async def listing(page: Page):
    for link in page.links("a"):
        yield page.follow(link, step=product)

@shop.step
async def product(page: Page):
    if page.text("h1"):
        badge = {{"badge": page.text("b")}} if page.text("b") else {{}}
        yield {{"name": page.text("h1"), "price": page.text(".price"), "currency": "GBP", **badge}}
"""
PRODUCTS = 40


class Site:
    """A shop of which a product page may look different tonight."""

    def __init__(self):
        self.product = "<h1>Lamp {n}</h1><p class=price>£{n}.50</p>"
        self.products, self.badges = PRODUCTS, 0
        self.status = 200

    def __call__(self, path):
        if path == "/":
            return Answer("".join(f"<a href='/{n}'>{n}</a>" for n in range(1, self.products + 1)))
        number = path.strip("/")
        badge = "<b>new</b>" if int(number) <= self.badges else ""
        return Answer(self.product.replace("{n}", number) + badge, status=self.status)


@pytest.fixture
def site(origin):
    origin.answer = Site()
    return origin.answer


async def night(bench, origin, **settings):
    given = "".join(f", {name}={value!r}" for name, value in settings.items())
    done = await bench.run(SHOP.format(settings=given), [f"{origin.url}/"])
    return done.snapshot


async def test_the_site_on_other_nights(bench, origin, site):
    for _ in range(3):
        snapshot = await night(bench, origin)
        assert (snapshot.outcome, list(snapshot.findings)) == (RunOutcome.COMPLETE, [])
    nights = [
        (
            "a renamed class",
            {"product": "<h1>Lamp {n}</h1><p class=amount>£{n}.50</p>"},
            "complete",
            "filled",
        ),
        ("block pages with status 200", {"product": "<title>Just a moment</title>"}, "empty", "volume"),
        ("half the catalogue gone", {"products": PRODUCTS // 2}, "complete", "volume"),
        (
            "another currency",
            {"product": "<h1>Lamp {n}</h1><p class=price>€{n}.50</p>"},
            "complete",
            "shapes",
        ),
        ("block pages", {"status": 403}, "blocked", "dead"),
        ("a tenth more", {"products": PRODUCTS * 11 // 10}, "complete", None),
        (
            "a new field",
            {"badges": PRODUCTS // 2},
            "complete",
            None,
        ),
    ]
    for name, change, outcome, kind in nights:
        vars(site).update(vars(Site()) | change)
        snapshot = await night(bench, origin, retries=0)
        kinds = [finding.kind for finding in snapshot.findings]
        assert (snapshot.outcome, kinds[:1]) == (outcome, [kind] if kind else []), (name, snapshot.findings)
        if kind == "filled":
            (finding,) = snapshot.findings
            assert finding.field == "price" and finding.now["price"] in ("", None)
    async with connect(bench.queue_url) as app:
        fields = (await (await app.run("newest")).profile()).steps["product"].fields
        assert (fields["badge"].filled, fields["name"].filled) == (PRODUCTS // 2, PRODUCTS)  # the new one


async def test_the_command_says_what_changed_and_what_to_type(tmp_path, origin, site):
    (tmp_path / "shop.py").write_text(SHOP.format(settings=""))
    run = ("run", "shop.py", f"--url={origin.url}/", "--allow-private", "127.0.0.0/8")
    for _ in range(3):
        done = await typed(*run, folder=tmp_path)
        assert done.code == Exit.OK and "Warning" not in done.err, done.err
    site.product = "<h1>Lamp {n}</h1>"
    warned = await typed(*run, folder=tmp_path)
    assert warned.code == Exit.OK
    assert "Warning: price: filled in 0% of the items, usually 100%" in warned.err
    assert 'Then:     {"name":"Lamp' in warned.err and '"price":""' in warned.err.replace("null", '""')
    strict = await typed(
        *run, "--set", "expect=items >= 1000; price filled >= 90%", "--json", folder=tmp_path
    )
    assert strict.code == Exit.SUSPICIOUS
    assert (strict.row["outcome"], len(strict.row["findings"])) == ("suspicious", 3)
    assert strict.row["outcome_reason"].startswith("expected 'items >= 1000': 40 items; expected 'price")
    (compare,) = [line for line in warned.err.splitlines() if line.startswith("Compare:")]
    compared = await typed(*compare.split()[2:], "--changed", "--json", folder=tmp_path)
    (row,) = json.loads(compared.out)["rows"]
    assert (row["field"], row["change"]) == ("price", "price: filled in 0% of the items, usually 100%")
    profile = await typed("items", "newest", "--profile", "--json", folder=tmp_path)
    shares = {row["field"]: row["filled_share"] for row in json.loads(profile.out)["fields"]}
    assert shares == {"name": 1.0, "price": 0.0, "currency": 1.0}
    accepted = await typed("accept", "newest", folder=tmp_path)
    assert accepted.code == Exit.OK and "Later runs of shop are compared" in accepted.err
    assert "accept" in accepted.err and "--undo" in accepted.err
    again = await typed(*run, folder=tmp_path)
    assert again.code == Exit.OK and "Warning: price" not in again.err


async def test_a_limit_on_the_time_and_a_cancelled_run_have_exit_codes_of_their_own(tmp_path, origin, site):
    (tmp_path / "shop.py").write_text(SHOP.format(settings="").replace("rate=None", "rate='2/s'"))
    run = ("run", "shop.py", f"--url={origin.url}/", "--allow-private", "127.0.0.0/8")
    done = await typed(*run, "--for", "2s", "--json", folder=tmp_path)
    assert (done.code, done.row["outcome"]) == (Exit.TIMED_OUT, "timed_out")
    shown = await typed("status", "newest", folder=tmp_path)
    assert "stopped, timed out" in shown.out
    assert (await typed("cancel", "newest", folder=tmp_path)).code == Exit.OK
    (row,) = (await typed("runs", "--json", folder=tmp_path)).rows
    assert (row["state"], row["outcome"]) == ("cancelled", "cancelled")


async def test_a_program_reads_the_fields_of_a_run(bench, origin, site):
    first = await night(bench, origin)
    site.product = "<h1>Lamp {n}</h1>"
    await night(bench, origin)
    async with connect(bench.queue_url) as app:
        run = await app.run("newest")
        assert (await run.profile()).steps["product"].fields["price"].filled == 0
        report = await run.compare(first.run.id)
        assert [row.field for row in report.rows if row.change] == ["price"]
        assert [row.outcome for row in await run.trend()] == ["complete", "complete"]
        await run.accept()
        assert [row.accepted for row in await run.trend()] == [False, True]
