"""Pages that are asked for with a POST, on every queue."""

import json
from collections import Counter
from urllib.parse import parse_qs

from tests.integration.engine.origin import Answer

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


async def test_forms_and_json_are_sent_once_each_and_answers_go_to_their_steps(any_bench, origin):
    origin.answer = shop
    summary = await any_bench.run(SEARCH.format(pages=PAGES), [f"{origin.url}/"], workers=2)
    assert (summary.snapshot.stats.completed, summary.snapshot.stats.dead) == (1 + 1 + PAGES, 0)
    items = await any_bench.items(summary.run.id)
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
    again = await bench.run(RECORDED, [f"{origin.url}/"], changes=[f"replay={tmp_path}/shop.warc.gz"])
    assert again.snapshot.stats.dead == 0 and sum(origin.visits.values()) == visits
    by_number = [
        {item["number"]: item["said"] for item in await bench.items(run.run.id)} for run in (first, again)
    ]
    assert by_number[0] == by_number[1] and sorted(by_number[0].values()) == ["a", "b", "c"]
