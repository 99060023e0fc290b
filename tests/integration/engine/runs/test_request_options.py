"""Pages that are requested with a POST."""

import json
from collections import Counter
from urllib.parse import parse_qs

from shoal.queue.open import open_queue
from tests.integration.engine.origin import Answer, Origin

PAGES = 5
SEARCH = """
    shop = Scraper("shop", rate=None, robots=False, cache="10m", headers={{"X-Shop": "all", "X-Lang": "de"}})

    @shop.step
    async def start(page: Page):
        form = page.css_first("form")
        yield page.post(form, form={{**page.form(), "q": "red"}}, headers={{"x-lang": "en"}}, step=found)
        for number in range({pages}):
            yield page.post("/api", json={{"page": number}}, step=listing, number=number)
            yield page.post("/api", json={{"page": number}}, step=listing, number=number)

    @shop.step
    async def found(page: Page):
        yield {{"found": page.text("title"), "url": page.url}}

    @shop.step
    async def listing(page: Page):
        yield {{"number": page.payload["number"], "answer": page.json()}}
"""
FORM = "<form action=/find method=post><input type=hidden name=token value=t0k><input name=q></form>"


def shop(path):
    match path:
        case "/":
            return Answer(FORM)
        case "/find":
            return Answer(status=303, headers={"Location": "/found"})
        case "/found":
            return Answer("<title>Red</title>")
        case "/api":
            return Answer(
                '{"ok": true}', headers={"Content-Type": "application/json", "Cache-Control": "max-age=600"}
            )


async def test_forms_and_json_are_sent_once_each_and_answers_go_to_their_steps(bench, origin):
    origin.answer = shop
    summary = await bench.run(SEARCH.format(pages=PAGES), [f"{origin.url}/"], workers=2)
    assert (summary.snapshot.stats.completed, summary.snapshot.stats.dead) == (1 + 1 + PAGES, 0)
    items = await bench.items(summary.run.id)
    assert {"found": "Red", "url": f"{origin.url}/found"} in items
    assert sorted(item["number"] for item in items if "number" in item) == list(range(PAGES))

    sent = Counter((path, body) for path, body, _ in origin.posts)
    assert set(sent.values()) == {1}
    assert sorted(json.loads(body)["page"] for path, body in sent if path == "/api") == list(range(PAGES))
    ((body, head),) = [(body, head) for path, body, head in origin.posts if path == "/find"]
    assert parse_qs(body.decode()) == {"token": ["t0k"], "q": ["red"]}
    assert "x-shop: all" in head and "x-lang: en" in head and "x-lang: de" not in head


RECORDED = """
    shop = Scraper("shop", rate=None, robots=False)

    @shop.step
    async def start(page: Page):
        for number in range(3):
            yield page.post("/api", json={"page": number}, step=listing, number=number)

    @shop.step
    async def listing(page: Page):
        yield {"number": page.payload["number"], "said": page.json()["said"]}
"""


async def test_a_recording_knows_what_was_answered_to_which_post(bench, origin, tmp_path):
    said = iter("abc")
    origin.answer = lambda path: Answer(json.dumps({"said": next(said)}) if path == "/api" else "<p>")
    record = f"warc={tmp_path}/shop.warc.gz"
    first = await bench.run(RECORDED, [f"{origin.url}/"], changes=[record])
    visits = sum(origin.visits.values())
    again = await bench.run(RECORDED, [f"{origin.url}/"], changes=[f"playback={tmp_path}/shop.warc.gz"])
    assert again.snapshot.stats.dead == 0 and sum(origin.visits.values()) == visits
    by_number = [
        {item["number"]: item["said"] for item in await bench.items(run.run.id)} for run in (first, again)
    ]
    assert by_number[0] == by_number[1] and sorted(by_number[0].values()) == ["a", "b", "c"]


OPTIONS = """
    shop = Scraper("shop", rate=None, robots=False, scope="any", retries=0)

    @shop.step
    async def start(page: Page):
        headers = {"X-One": "1", "Authorization": "Bearer hush-hush"}
        options = {"headers": headers, "cookies": {"sid": "s3cr3t-value"}}
        yield page.follow("/away", step=found, **options)
        yield Task(url="relative", step=found)
        yield page.follow("/broken", step=found, **options)

    @shop.step
    async def found(page: Page):
        if page.url.endswith("/broken"):
            raise ValueError("failed with hush-hush and s3cr3t-value")
        yield {"url": page.url}
"""


async def test_options_of_followed_links_reach_their_host_only_and_stay_secret(bench, origin):
    heads = {}
    async with Origin(lambda path: Answer(), address="127.0.0.2") as other:
        for site in (origin, other):
            site.on_head = lambda path, head, site=site: heads.update({(site.port, path): head.lower()})
        away = Answer(status=302, headers={"Location": f"{other.url}/landed"})
        origin.answer = lambda path: away if path == "/away" else Answer()
        changes = ["allow_private=127.0.0.0/8"]
        summary = await bench.run(OPTIONS, [f"{origin.url}/"], changes=changes)
    sent, landed = heads[origin.port, "/away"], heads[other.port, "/landed"]
    assert "x-one: 1" in sent and "authorization: bearer hush-hush" in sent and "sid=s3cr3t-value" in sent
    assert "x-one" not in landed and "hush-hush" not in landed and "s3cr3t" not in landed
    assert "sid" not in heads[origin.port, "/relative"]
    assert summary.snapshot.stats.completed == 3
    async with open_queue(bench.queue_url) as queue:
        (dead,) = [letter async for letter in queue.dead(summary.run.id)]
    assert "hush-hush" not in dead.error and "s3cr3t-value" not in dead.error and "failed with" in dead.error
