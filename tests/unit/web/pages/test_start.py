"""Starting a run and workers from the pages: the form, its review, and what is refused."""

import asyncio
import html
from datetime import timedelta

import pytest

from shoal.fleet.run.open_run import OpenedRun
from shoal.queue.run_args import stored_args
from shoal.web.audit import read_actions
from tests.unit.web.tokens import OPERATOR, READER

URL = "https://books.example/1"
SEEDED = """
[scrapers.books]
module = "books.py:books"
[scrapers.books.seeds]
urls_file = "urls.txt"
[scrapers.broken]
module = "broken.py:broken"
"""


@pytest.fixture
async def operator(dashboard):
    async with dashboard.client(OPERATOR) as client:
        yield client


class FakeWorkers:
    """Local workers without processes."""

    def __init__(self):
        self.started = []
        self.starting = asyncio.Lock()

    async def start(self, run, job, workers):
        self.started.append((run.id, job.scraper.name, workers, dict(job.typed)))

    def count(self, run_id=None):
        return sum(count for run, _, count, _ in self.started if run_id in (None, run))

    def is_stopping(self, run_id):
        return False

    def failure(self, run_id):
        return "ImportError: no module <b>x</b>" if run_id == "failed" else ""

    def check(self, run_id):
        return not self.count(run_id)

    def stop(self, run_id):
        stopped, self.started = self.count(run_id), []
        return stopped

    async def close(self):
        return None


@pytest.fixture
def workers(dashboard):
    dashboard.app.local_workers = FakeWorkers()
    return dashboard.app.local_workers


async def test_the_form_offers_the_scrapers_of_the_project(operator):
    text = (await operator.get("/start?scraper=books")).text
    assert '<option value="books" selected>' in text
    assert "<code>shoal run books --url" in text


async def test_the_review_says_what_will_start_and_starts_nothing(dashboard, operator, workers):
    form = {"scraper": "books", "urls": f"{URL}\n\nnonsense\n", "settings": "rate=2/s", "workers": "2"}
    response = await operator.post("/start", data=form)
    text = html.unescape(response.text)
    assert f"<dd>1: {URL}</dd>" in text and "1 line: " in text and "nonsense" in text
    assert "Stored in the queue." in text
    assert "2 workers on this machine" in text and "--set rate=2/s --workers 2" in text
    assert 'name="workers" value="2"' in text and not await dashboard.queue.runs()
    assert workers.started == []


async def test_a_line_that_is_too_long_is_skipped_like_any_other_that_is_no_url(dashboard, operator):
    form = {"scraper": "books", "urls": f"{URL}\n{URL}?{'x' * 9_000}", "workers": "0"}
    text = html.unescape((await operator.post("/start", data=form)).text)
    assert f"<dd>1: {URL}</dd>" in text and "1 line: " in text
    started = await operator.post("/start/run", data=form)
    assert started.headers["location"].endswith("?done=started&count=1")


async def test_a_confirmed_form_starts_the_run_and_its_workers(dashboard, operator, workers):
    form = {"scraper": "books", "urls": URL, "settings": "rate=2/s\nretries=3", "workers": "2"}
    response = await operator.post("/start/run", data=form)
    (run,) = await dashboard.queue.runs()
    assert response.headers["location"] == f"/runs/{run.id}?done=started&count=1"
    assert workers.started == [(run.id, "books", 2, {"rate": "2/s", "retries": 3})]
    text = (await operator.get(response.headers["location"])).text
    assert "Tasks queued: 1." in text and "2 workers on this machine" in text and "Stop workers here" in text
    (action,) = await read_actions(dashboard.queue)
    assert (action.action, action.target) == ("start", run.id)
    assert action.details.pop("hosts") == ["books.example"]
    assert action.details == {"scraper": "books", "enqueued": 1, "workers": 2}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"urls": ""}, "Give URLs, a sitemap or a feed"),
        ({"urls": "nonsense"}, "No line is a URL"),
        ({"sitemap": "x" * 9_000}, "sitemaps: "),
        ({"settings": "rate"}, "NAME=VALUE"),
        ({"settings": "headers={}"}, "cannot be set through the API or the pages"),
        ({"settings": "rtae=2"}, "Did you mean 'rate'?"),
        ({"settings": "rate=often"}, "rate"),
        ({"workers": "9"}, "must be at most 8"),
        ({"workers": "-1"}, "whole number"),
        ({"scraper": "films"}, "films"),
    ],
)
async def test_a_wrong_form_is_shown_again_with_the_reason(dashboard, operator, workers, change, says):
    form = {"scraper": "books", "urls": URL, "settings": "", "workers": "1"} | change
    for path in ("/start", "/start/run"):
        response = await operator.post(path, data=form)
        text = html.unescape(response.text)
        if path == "/start" or says != "No line is a URL":
            assert response.status_code == 422 and says in text, (path, text)
        assert form["urls"] in text
    assert not await dashboard.queue.runs() and workers.started == []


async def test_a_form_that_is_edited_again_keeps_what_was_typed(operator):
    form = {"scraper": "books", "urls": URL, "settings": "rate=2/s", "workers": "0", "edit": "1"}
    text = (await operator.post("/start", data=form)).text
    assert f">{URL}</textarea>" in text and ">rate=2/s</textarea>" in text


async def test_without_urls_the_seeds_of_the_project_are_queued(dashboard_with):
    async with dashboard_with(project=SEEDED) as dashboard, dashboard.client(OPERATOR) as client:
        (dashboard.folder / "urls.txt").write_text(f"{URL}\nhttps://books.example/2\n")
        form = {"scraper": "books", "urls": "", "workers": "0"}
        assert "those of shoal.toml" in (await client.post("/start", data=form)).text
        response = await client.post("/start/run", data=form)
        assert response.headers["location"].endswith("?done=started&count=2")


async def test_a_source_that_takes_long_is_read_in_the_background(dashboard, operator, monkeypatch):
    from shoal.web.pages import start

    may_go, context = asyncio.Event(), dashboard.web.state.context
    real = OpenedRun.enqueue

    async def enqueue_slowly(opened):
        await may_go.wait()
        return await real(opened)

    monkeypatch.setattr(OpenedRun, "enqueue", enqueue_slowly)
    monkeypatch.setattr(start, "START_TIMEOUT", timedelta(seconds=0.01))
    form = {"scraper": "books", "urls": URL, "workers": "0"}
    response = await operator.post("/start/run", data=form)
    (run_id,) = context.starts
    assert response.headers["location"] == f"/runs/{run_id}?done=starting"
    starting = context.starts[run_id]
    while not await dashboard.queue.runs():
        await asyncio.sleep(0.01)
    assert "still being read" in (await operator.get(f"/runs/{run_id}")).text
    may_go.set()
    await starting
    assert (await dashboard.queue.stats(run_id)).tasks == 1 and not context.starts


async def test_a_start_that_queues_nothing_leaves_no_run_and_is_in_the_audit_log(dashboard, operator):
    response = await operator.post(
        "/start/run", data={"scraper": "books", "urls": "nonsense", "workers": "0"}
    )
    assert response.status_code == 422 and "Nothing could be queued" in response.text
    assert not await dashboard.queue.runs()
    (action,) = await read_actions(dashboard.queue)
    assert action.action == "start failed" and "Nothing could be queued" in action.details["reason"]


async def test_a_sitemap_that_cannot_be_read_is_named_with_the_reason(dashboard, operator):
    form = {"scraper": "books", "sitemap": "http://127.0.0.1:1/sitemap.xml", "workers": "0"}
    response = await operator.post("/start/run", data=form)
    assert response.status_code == 422
    assert "sitemap http://127.0.0.1:1/sitemap.xml: " in response.text
    assert not await dashboard.queue.runs()


async def test_a_feed_is_read_as_a_source_and_one_that_cannot_be_is_named(dashboard, operator):
    feed = "http://127.0.0.1:1/feed.xml"
    form = {"scraper": "books", "feed": feed, "feed_hosts": "*.example.com, b.example", "workers": "0"}
    review = html.unescape((await operator.post("/start", data=form)).text)
    assert f"--feed {feed} --feed-hosts" in review and "'*.example.com,b.example'" in review
    response = await operator.post("/start/run", data=form)
    assert response.status_code == 422 and f"feed {feed}: " in response.text
    hosts = {"scraper": "books", "urls": URL, "feed_hosts": "*", "workers": "0"}
    alone = await operator.post("/start", data=hosts)
    assert alone.status_code == 422 and "add feed" in alone.text
    body = {"scraper": "books", "feeds": [feed], "feed_hosts": ["*"]}
    refused = await operator.post("/api/runs", json=body | {"workers": 1})
    assert refused.status_code == 422 and f"feed {feed}: " in refused.json()["message"]
    assert not await dashboard.queue.runs()


async def test_a_reader_and_a_read_only_server_start_nothing(dashboard, dashboard_with, workers):
    run = await dashboard.make_run()
    paths = ("/start", "/start/run", f"/runs/{run.id}/start-workers", f"/runs/{run.id}/stop-workers")
    async with dashboard.client(READER) as client:
        for path in paths:
            assert (await client.post(path, data={"scraper": "books", "urls": URL})).status_code == 403, path
        for path in ("/start", *paths[2:]):
            assert (await client.get(path)).status_code == 403, path
        for path in ("/", "/runs", "/scrapers", f"/runs/{run.id}"):
            text = (await client.get(path)).text
            assert "Start" not in text.replace("Started", "").replace("Start some", ""), path
    assert workers.started == []


async def test_workers_are_started_and_stopped_after_a_confirmation(dashboard, operator, workers):
    run = await dashboard.make_run()
    text = (await operator.get(f"/runs/{run.id}/start-workers?workers=2")).text
    assert "Start 2 workers on this machine?" in text
    assert f"shoal work books --run {run.id}" in text and "--workers 2</code>" in text
    response = await operator.post(f"/runs/{run.id}/start-workers", data={"workers": "2"})
    assert response.headers["location"] == f"/runs/{run.id}?done=workers&count=2"
    assert "Stop 2 workers on this machine?" in (await operator.get(f"/runs/{run.id}/stop-workers")).text
    response = await operator.post(f"/runs/{run.id}/stop-workers")
    assert response.headers["location"] == f"/runs/{run.id}?done=stopping&count=2"
    assert [one.action for one in await read_actions(dashboard.queue)] == ["stop workers", "start workers"]


async def test_the_number_of_workers_here_is_bounded(dashboard_with):
    async with dashboard_with(max_workers=2) as dashboard, dashboard.client(OPERATOR) as client:
        run = await dashboard.make_run()
        for path in ("start-workers?workers=3", "start-workers?workers=x"):
            assert (await client.get(f"/runs/{run.id}/{path}")).status_code == 422
        response = await client.post(f"/runs/{run.id}/start-workers", data={"workers": "3"})
        assert response.status_code == 422 and "--max-workers" in response.text
    async with dashboard_with(max_workers=0) as dashboard, dashboard.client(OPERATOR) as client:
        run = await dashboard.make_run()
        assert "Start workers here" not in (await client.get(f"/runs/{run.id}")).text


async def test_the_api_starts_and_stops_workers(dashboard, operator, workers):
    body = {"scraper": "books", "urls": [URL], "workers": 1}
    run_id = (await operator.post("/api/runs", json=body)).json()["run_id"]
    response = await operator.post(f"/api/runs/{run_id}/workers", json={"workers": 2})
    assert response.json() == {"run_id": run_id, "here": 3}
    assert (await operator.delete(f"/api/runs/{run_id}/workers")).json() == {"run_id": run_id, "stopped": 3}
    assert (await operator.post(f"/api/runs/{run_id}/workers", json={"workers": 9})).status_code == 422


async def test_the_reason_why_workers_ended_is_shown_as_text(dashboard, operator, workers):
    await dashboard.queue.start_run("books", run_id="failed")
    text = (await operator.get("/runs/failed")).text
    assert "ImportError: no module &lt;b&gt;x&lt;/b&gt;" in text


async def test_the_scrapers_are_listed_with_their_settings_last_run_and_errors(dashboard_with):
    async with dashboard_with(project=SEEDED) as dashboard, dashboard.client(OPERATOR) as client:
        (dashboard.folder / "broken.py").write_text("import nothing_here")
        run = await dashboard.make_run()
        text = html.unescape((await client.get("/scrapers")).text)
    assert "listing, book" in text and "<code>robots=false</code>" in text and "<code>delay=0</code>" in text
    assert f'href="/runs/{run.id}"' in text and 'href="/start?scraper=books"' in text
    assert "No module named 'nothing_here'" in text and 'href="/start?scraper=broken"' not in text


ARGUED = """
from shoal import Scraper
books = Scraper("books", start=["https://books.example/"], args={"tag": str, "most": int})
@books.step
async def page(page):
    yield {"tag": page.args.tag}
"""


async def test_a_scraper_with_arguments_and_seeds_of_its_own_is_started_with_them(
    dashboard, operator, workers
):
    (dashboard.folder / "books.py").write_text(ARGUED)
    text = html.unescape((await operator.get("/start?scraper=books")).text)
    assert 'name="args"' in text and "books takes tag, most." in text
    assert "<code>shoal run books --workers 1 " in text
    form = {"scraper": "books", "urls": "", "args": "tag=a b\nmost=3", "workers": "1"}
    review = html.unescape((await operator.post("/start", data=form)).text)
    assert "<code>shoal run books -a 'tag=a b' -a most=3 --workers 1 " in review
    assert "<dd>tag=a b, most=3</dd>" in review and 'name="args"' in review
    assert (await operator.post("/start/run", data=form)).status_code == 303
    (run,) = await dashboard.queue.runs()
    assert await stored_args(dashboard.queue, run.id) == {"tag": "a b", "most": 3}


@pytest.mark.parametrize(
    ("args", "says"),
    [("tag", "NAME=VALUE"), ("tag=a", "most"), ("tag=a\nmost=x", "most"), ("tga=a\nmost=1", "tga")],
)
async def test_wrong_arguments_are_refused_with_the_reason(dashboard, operator, workers, args, says):
    (dashboard.folder / "books.py").write_text(ARGUED)
    response = await operator.post("/start", data={"scraper": "books", "args": args, "workers": "1"})
    assert response.status_code == 422 and says in html.unescape(response.text)
    assert not await dashboard.queue.runs()
