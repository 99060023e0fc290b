"""Command, JSON API and program do the same on every queue, and each finds what the others did."""

import asyncio
import json
from contextlib import asynccontextmanager
from datetime import timedelta

import httpx2
import pytest
from msgspec import to_builtins

import shoal
from shoal.core.errors import InvalidInput, InvalidTask
from shoal.core.model import MINUTE
from shoal.web.app import make_app
from shoal.web.context import WebContext, WebSettings
from shoal.web.sampler import Sampler
from tests.integration.engine.origin import Answer
from tests.integration.engine.shell import typed
from tests.unit.web.tokens import HERE, OPERATOR

SCRAPER = """
from shoal import Page, Scraper

news = Scraper("news", rate=None, robots=False, allow_private="127.0.0.0/8")

@news.step
async def article(page: Page):
    yield {"url": page.url}
"""
TOML = """
queue = "{queue}"

[scrapers]
news = "news.py:news"
"""
URL = "https://news.example"


class Interfaces:
    """The same queue by command, over HTTP and in Python."""

    def __init__(self, folder, app, http):
        self.folder, self.app, self.http = folder, app, http

    async def type(self, *words):
        done = await typed(*words, "--json", folder=self.folder)
        assert done.code == 0, done.err
        return done.row

    async def post(self, path, **body):
        response = await self.http.post(f"/api{path}", json=body)
        assert response.status_code < 300, response.text
        return response.json()


@asynccontextmanager
async def interfaces(bench):
    (bench.folder / "news.py").write_text(SCRAPER)
    (bench.folder / "shoal.toml").write_text(TOML.format(queue=bench.queue_url))
    async with shoal.connect(bench.queue_url, folder=bench.folder) as app:
        web = make_app(WebContext(app, Sampler(app.queue), WebSettings.read(operator_token=OPERATOR)))
        headers = {"Authorization": f"Bearer {OPERATOR}"}
        transport = httpx2.ASGITransport(web)
        async with httpx2.AsyncClient(transport=transport, base_url=HERE, headers=headers) as http:
            yield Interfaces(bench.folder, app, http)


async def test_each_returns_the_ids_of_what_it_queued_and_the_command_that_starts_a_worker(any_bench):
    urls = [f"{URL}/1", "no url", f"{URL}/2"]
    async with interfaces(any_bench) as here:
        words = [f"--url={url}" for url in urls]
        row = await here.type("enqueue", "news", *words, "--run", "typed", "--invalid", "dead")
        posted = await here.post("/runs", scraper="news", urls=urls, invalid="dead", run_id="posted")
        more = await here.post("/runs/posted/enqueue", urls=urls)
        run = await here.app.start("news", urls=urls, run_id="program", on_invalid="dead")
        places = []
        for run_id, ids in (("typed", row["ids"]), ("posted", posted["ids"]), ("program", run.ids)):
            first, refused, second = ids
            assert refused is None
            assert await here.app.queue.entered(run_id, [first, second]) == {first, second}
            letters = await (await here.app.run(run_id)).dead()
            places.append([letter.task.payload["where"] for letter in letters])
        assert more["ids"] == posted["ids"]
    assert places == [["--url no url"], ["urls[1]"], ["urls[1]"]]
    commands = [row["worker_command"], posted["worker_command"], run.worker_command]
    assert [words.split()[:5] for words in commands] == [
        ["shoal", "work", "news", "--run", name] for name in ("typed", "posted", "program")
    ]


async def test_what_one_has_queued_the_others_leave_out(bench):
    async with interfaces(bench) as here:
        urls = [word for number in (1, 2) for word in ("--url", f"{URL}/{number}")]
        row = await here.type("enqueue", "news", *urls, "--dedup", "1h")
        posted = await here.post(
            "/runs", scraper="news", urls=[f"{URL}/2", f"{URL}/3"], settings={"dedup": "1h"}
        )
        wanted = [f"{URL}/{number}" for number in (1, 3, 4)]
        report = (await here.app.start("news", urls=wanted, settings={"dedup": "1h"})).report
    assert (row["enqueued"], row["known"]) == (2, 0)
    assert (posted["enqueued"], posted["known"]) == (1, 1)
    assert (report.added, report.known) == (1, 2)


async def test_each_counts_the_sitemaps_it_cannot_read_and_starts_no_run_from_them_alone(bench, origin):
    listed = "".join(f"<url><loc>{origin.url}/{number}</loc></url>" for number in range(3))
    pages = {"/good.xml": f"<urlset>{listed}</urlset>", "/broken.xml": "<urlset><url"}
    origin.answer = lambda path: Answer(pages.get(path, ""), status=200 if path in pages else 404)
    good, broken, missing = (f"{origin.url}/{name}.xml" for name in ("good", "broken", "missing"))
    async with interfaces(bench) as here:
        words = [f"--sitemap={url}" for url in (good, broken, missing)]
        row = await here.type("enqueue", "news", *words)
        posted = await here.post("/runs", scraper="news", sitemaps=[good, broken, missing])
        report = (await here.app.start("news", sitemap=[good, broken, missing])).report
        refused = to_builtins(report.refused)
        program = {"enqueued": report.added, "invalid": report.invalid, "refused": refused}
        for found in (row, posted, program):
            assert (found["enqueued"], found["invalid"]) == (3, 2)
            assert [one["text"] for one in found["refused"]] == [broken, missing]
        runs = len(await here.app.runs())

        typed_in = await typed("enqueue", "news", "--sitemap", missing, folder=bench.folder)
        response = await here.http.post("/api/runs", json={"scraper": "news", "sitemaps": [missing]})
        with pytest.raises(InvalidInput) as caught:
            await here.app.start("news", sitemap=missing)
        for text in (typed_in.err, response.json()["message"], str(caught.value)):
            assert "Nothing could be queued (1 invalid), so no run was created." in text
            assert f"{missing}: status 404" in text
        with pytest.raises(InvalidTask, match="status 404"):
            await here.app.start("news", sitemap=[good, missing], on_invalid="raise")
        assert len(await here.app.runs()) == runs
        dead = await here.app.start("news", sitemap=missing, on_invalid="dead")
        assert [letter.task.payload["text"] for letter in await dead.dead()] == [missing]


async def test_each_sets_how_long_a_retry_waits(bench, origin):
    origin.answer = lambda path: Answer(status=500)
    url, retry = f"{origin.url}/", {"delay": "1h", "jitter": False}
    async with interfaces(bench) as here:
        words = ("--url", url, "--run", "typed", "--set", f"retry={json.dumps(retry)}")
        await here.type("enqueue", "news", *words)
        await here.post("/runs", scraper="news", urls=[url], settings={"retry": retry}, run_id="posted")
        await here.app.start("news", urls=[url], settings={"retry": retry}, run_id="program")
        for name in ("typed", "posted", "program"):
            await here.app.work(name, workers=1)
            await _delayed_by(here.app.queue, name, timedelta(hours=1))
            here.app.local_workers.stop(name)


async def test_workers_that_join_use_the_settings_of_the_run(bench, origin):
    heads, settings = [], {"user_agent": "Visitor/7"}
    origin.on_head = lambda path, head: heads.append(head.lower())
    async with interfaces(bench) as here:
        run = await here.app.start("news", urls=[f"{origin.url}/"], settings=settings, workers=0)
        await (await here.app.work(run.id)).wait()
    assert "user-agent: visitor/7" in heads[-1]


async def _delayed_by(queue, run_id, wait):
    async with asyncio.timeout(60):
        while not (await queue.stats(run_id)).delayed:
            await asyncio.sleep(0.1)
    grant = await queue.claim("looking", run_id=run_id, limit=1)
    assert wait - MINUTE < grant.next_due <= wait
