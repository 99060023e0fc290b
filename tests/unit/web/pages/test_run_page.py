"""The page of a run: counts on its tabs, errors of ended runs, charts of past runs, and who works on it."""

import html
import re

import msgspec
import pytest

from shoal.core.http import Headers, Response
from shoal.core.model import MINUTE, SECOND, Bury, Done, Task
from shoal.core.proxies import ProxyRules, read_proxy_list
from shoal.fetch.proxies.health import ProxyFault
from shoal.fetch.proxies.pool import ProxyPool
from shoal.fetch.proxies.sync import ProxySync
from shoal.fetch.tor.sync import TorState
from shoal.fleet.run.judgement import judged
from shoal.fleet.status.hook_records import FINISH, START, HookRecord, HookState, topic_of
from shoal.fleet.status.rates import RateHistory
from shoal.scrape.harvest import Harvest
from shoal.scrape.scraper import Scraper
from shoal.web import stream
from shoal.web.sampler import DeadErrorReader, DeadErrors
from shoal.worker.counters import FileCounts, MissingPages
from shoal.worker.left_out import WorkerLeftOut, left_out_topic
from shoal.worker.recrawl import VisitStore
from tests.unit.web.tokens import OPERATOR, READER


@pytest.fixture
async def operator(dashboard):
    async with dashboard.client(OPERATOR) as client:
        yield client


async def make_ended_run(
    dashboard, errors=("ValueError: no price", "HttpStatus: 404", "ValueError: no title")
):
    """Return a run without a task left and without workers."""
    run = await dashboard.queue.start_run("books")
    tasks = [Task(url=f"https://{n}.example/", step="listing") for n in range(len(errors) + 1)]
    await dashboard.queue.enqueue(run.id, tasks)
    done, *bad = (await dashboard.queue.claim("machine-7-abcd", run_id=run.id)).leases
    await dashboard.queue.settle([Done(done, items=[{"a": 1}])])
    await dashboard.queue.settle([Bury(lease, error) for lease, error in zip(bad, errors, strict=True)])
    return run


def counts_on_tabs(text):
    tabs = re.search(r'<nav class="tabs".*?</nav>', text, re.DOTALL)[0]
    return dict(re.findall(r">([A-Z][a-z ]+) <span class=\"count[^>]*>([\d,]+)<", tabs))


async def test_every_tab_shows_the_counts_of_the_run(dashboard, operator):
    run = await dashboard.make_run(pages=3)
    for path in ("", "/items", "/rejects", "/dead", "/tasks", "/proxies"):
        text = (await operator.get(f"/runs/{run.id}{path}")).text
        found = {"Items": "3", "Rejects": "3", "Dead letters": "1", "Tasks": "5"}
        assert counts_on_tabs(text) == found, path


async def test_the_page_shows_the_fields_their_trend_and_what_differs(dashboard, operator):
    queue, scraper = dashboard.queue, Scraper("books")
    hostile = "<script>alert(1)</script>"
    for night in range(4):
        run = await queue.start_run("books", run_id=f"night{night}")
        await queue.enqueue(run.id, [Task(url=f"https://{night}.example/", step="listing")])
        (lease,) = (await queue.claim("machine-7-abcd", run_id=run.id)).leases
        price = None if night == 3 else 1.5
        await queue.settle([Done(lease, items=[{"price": price, hostile: hostile} for _ in range(20)])])
        await judged(queue, run.id, scraper, print)
    text = (await operator.get("/runs/night3")).text
    assert "Warnings about the data" in text and "price: filled in 0% of the items, usually 100%" in text
    assert hostile not in text and html.escape(hostile) in text
    charts = re.findall(r'<svg class="trend".*?<polyline points="([^"]+)"', text, re.DOTALL)
    assert charts[0] == "0.0,1.0 33.3,1.0 66.7,1.0 100.0,1.0"  # 20 items each night
    assert charts[1] == "0.0,1.0 33.3,1.0 66.7,1.0 100.0,19.0"  # no price in the last one
    assert "1 warning" in (await operator.get("/runs")).text
    accepted = await operator.post("/runs/night3/accept", follow_redirects=True)
    assert "The run was accepted" in accepted.text
    page = (await operator.get("/scrapers/books")).text
    charts = re.findall(r'<svg class="trend".*?<polyline points="([^"]+)"', page, re.DOTALL)
    assert charts[2:4] == [f"0.0,19.0 33.3,19.0 66.7,19.0 100.0,{y}" for y in ("1.0",)] + [
        "0.0,1.0 33.3,1.0 66.7,1.0 100.0,19.0"
    ]
    assert hostile not in page and 'href="/runs/night3"' in page and "accepted" in page
    undone = await operator.post("/runs/night3/accept?undo=1", follow_redirects=True)
    assert "No longer accepted." in undone.text and "This is right" in undone.text
    assert "No run of this scraper" in (await operator.get("/scrapers/other")).text


async def test_the_api_has_outcome_profile_comparison_and_trend(dashboard, operator):
    queue, scraper = dashboard.queue, Scraper("books", expect="items >= 3")
    for night, items in enumerate(([{"a": 1}], [{"a": "x"}] * 3)):
        run = await queue.start_run("books", run_id=f"night{night}")
        await queue.enqueue(run.id, [Task(url=f"https://{night}.example/", step="listing")])
        (lease,) = (await queue.claim("machine-7-abcd", run_id=run.id)).leases
        await queue.settle([Done(lease, items=items)])
        await judged(queue, run.id, scraper, print)
    report = (await operator.get("/api/runs/night0")).json()
    assert (report["outcome"], report["outcome_reason"]) == ("suspicious", "expected 'items >= 3': 1 item")
    assert report["findings"][0]["strict"]
    listed = (await operator.get("/api/runs")).json()["rows"]
    assert [row["outcome"] for row in listed] == ["complete", "suspicious"]
    (field,) = (await operator.get("/api/runs/night1/profile")).json()["fields"]
    assert (field["field"], field["types"], field["filled_share"]) == ("a", {"text": 3}, 1.0)
    rows = (await operator.get("/api/runs/night1/compare?before=night0")).json()["rows"]
    assert ("a", "100.0% filled, number, 1 to 1, median 1") in [(row["field"], row["before"]) for row in rows]
    assert (await operator.get("/api/runs/night1/compare?before=other")).status_code == 404
    assert (await operator.post("/api/runs/night0/accept")).json() == {"run_id": "night0", "accepted": True}
    trend = (await operator.get("/api/runs/night1/trend")).json()
    assert [(row["run_id"], row["accepted"]) for row in trend] == [("night0", True), ("night1", False)]


async def test_hooks_that_run_or_have_failed_are_on_the_page_and_in_the_api(dashboard, operator):
    run = await dashboard.make_run(pages=1)
    hook = "on_run_finish report"
    calling = HookRecord(state=HookState.RUNNING, token=1, process="machine-7-abcd", limit=MINUTE, hook=hook)
    failed = calling.ended(HookState.FAILED, "ValueError: no folder")
    notes = {START: msgspec.json.encode(calling), FINISH: msgspec.json.encode(failed)}
    await dashboard.queue.write_notes(topic_of(run.id), notes)
    text = html.unescape((await operator.get(f"/runs/{run.id}")).text)
    assert "Hook running: on_run_finish report" in text
    assert "Hook failed: on_run_finish report" in text
    assert "ValueError: no folder" in text
    hooks = (await operator.get(f"/api/runs/{run.id}")).json()["hooks"]
    assert {kind: (hook["state"], hook["hook"]) for kind, hook in hooks.items()} == {
        START: ("running", "on_run_finish report"),
        FINISH: ("failed", "on_run_finish report"),
    }


async def test_an_ended_run_shows_the_errors_of_its_dead_letters(dashboard, operator):
    run = await make_ended_run(dashboard)
    text = (await operator.get(f"/runs/{run.id}")).text
    rows = re.findall(r'/dead\?error=(\w+)">\w+</a>.*?<td class="n">(\d+)</td>', text, re.DOTALL)
    assert rows == [("ValueError", "2"), ("HttpStatus", "1")]
    assert "no errors from running workers" not in text


async def test_a_run_without_errors_says_so(dashboard, operator):
    run = await dashboard.queue.start_run("books")
    assert "No dead letters, and no errors" in (await operator.get(f"/runs/{run.id}")).text


async def test_after_a_replay_the_page_says_what_starts_workers(dashboard, operator):
    run = await make_ended_run(dashboard)
    after = (await operator.post(f"/runs/{run.id}/replay", content="all=1")).headers["location"]
    text = (await operator.get(after)).text
    assert "Dead letters replayed: 3." in text and "No worker is at work on this run." in text
    assert f"shoal work books --run {run.id}" in text and "Start workers here" in text
    async with dashboard.client(READER) as reader:
        seen = (await reader.get(after)).text
    assert f"shoal work books --run {run.id}" in seen and "Start workers here" not in seen


async def test_after_a_replay_the_page_says_how_many_workers_are_at_work(dashboard, operator):
    run = await make_ended_run(dashboard)
    await dashboard.queue.beat("machine-8-abcd", run_id=run.id)
    after = (await operator.post(f"/runs/{run.id}/replay", content="all=1")).headers["location"]
    assert "1 worker at work on this run." in (await operator.get(after)).text


async def test_a_run_of_a_scraper_that_the_project_does_not_have_cannot_be_worked_on_here(
    dashboard, operator
):
    run = await dashboard.queue.start_run("films")
    await dashboard.queue.enqueue(run.id, [Task(url="https://films.example/")])
    text = (await operator.get(f"/runs/{run.id}")).text
    assert "run <code>shoal work</code> with the file of the scraper" in text
    assert "shoal work FILE" not in text and "Start workers here" not in text
    assert (await operator.post(f"/runs/{run.id}/start-workers", content="workers=1")).status_code == 404


async def test_workers_are_refused_where_nothing_is_left_to_do(dashboard, operator):
    run = await make_ended_run(dashboard)
    response = await operator.post(f"/runs/{run.id}/start-workers", content="workers=1")
    assert response.status_code == 422 and "has no tasks left" in response.text
    await dashboard.queue.replay(run.id)
    await dashboard.queue.cancel(run.id)
    response = await operator.post(f"/runs/{run.id}/start-workers", content="workers=1")
    assert response.status_code == 409 and "was cancelled" in response.text


async def test_dead_letters_are_counted_again_only_when_their_number_changes(dashboard, monkeypatch):
    run = await make_ended_run(dashboard)
    reader = DeadErrorReader(dashboard.queue)
    assert (await reader.read(run.id, 3)).classes == (("ValueError", 2), ("HttpStatus", 1))
    monkeypatch.setattr(reader, "_count", None)  # would fail if called
    assert len((await reader.read(run.id, 3)).classes) == 2
    assert await reader.read(run.id, 0) == DeadErrors()


async def test_only_the_oldest_dead_letters_are_counted(dashboard, operator, monkeypatch):
    monkeypatch.setattr("shoal.web.sampler.MAX_CLASSIFIED", 2)
    run = await make_ended_run(dashboard)
    text = (await operator.get(f"/runs/{run.id}")).text
    assert "1+</td>" in text and "oldest dead letters only" in text


async def test_the_chart_of_a_past_run_is_read_from_the_queue(dashboard):
    run = await make_ended_run(dashboard)
    history = RateHistory()
    for second in range(5):
        history.add(1_000.0 + 2 * second, 20 * second)
    await dashboard.queue.write_notes("run rates", {run.id: msgspec.json.encode(history)})
    times, rates = await stream._history(dashboard.web.state.context, run.id)
    assert times == [1000, 1002, 1004, 1006, 1008] and rates == [None, 10, 10, 10, 10]


async def test_start_and_duration_of_a_run_are_on_its_page_in_the_lists_and_in_the_api(dashboard, operator):
    run = await make_ended_run(dashboard)
    history = RateHistory()
    history.add((run.started_at + 150 * SECOND).timestamp(), 4)
    await dashboard.queue.write_notes("run rates", {run.id: msgspec.json.encode(history)})
    started = run.started_at.strftime("%Y-%m-%dT%H:%M:%S")
    for path in ("/", "/runs", f"/runs/{run.id}"):
        text = (await operator.get(path)).text
        assert f'<time datetime="{started}Z"' in text and "2 min 30 s" in text, path
    (listed,) = (await operator.get("/api/runs")).json()["rows"]
    (seen,) = (await operator.get("/api/overview")).json()["runs"]
    for row in (listed, seen, (await operator.get(f"/api/runs/{run.id}")).json()):
        assert row["started_at"].startswith(started) and row["duration_seconds"] == 150


@pytest.mark.parametrize(
    ("settings", "says"), [({}, "SHOAL_WEB_TOKEN that"), ({"operator_token": None}, "Use the link that")]
)
async def test_the_login_page_says_where_the_token_is(dashboard_with, settings, says):
    async with dashboard_with(**settings) as dashboard, dashboard.client() as client:
        text = (await client.get("/login")).text
    assert says in text


async def test_proxies_have_a_tab_once_there_are_some_and_those_without_pages_are_first(dashboard, operator):
    run = await dashboard.make_run()
    assert ">Proxies</a>" not in (await operator.get(f"/runs/{run.id}")).text
    lines = ["a.test:1", "b.test:2", "c.test:3"]
    pool = ProxyPool(ProxyRules(threshold=1), read_proxy_list(lines, what="entry", salt=b"x"))
    first, second, third = pool.records()
    pool.record_page(first, "shop.test", 0.5)
    pool.record_page(second, "shop.test", 0.5)
    pool.record_failure(third, ProxyFault.DEAD)
    await ProxySync(dashboard.queue, run.id, "w1", pool).exchange()
    text = (await operator.get(f"/runs/{run.id}/proxies")).text
    assert re.findall(r"http://(\w\.test:\d)", text) == ["c.test:3", "a.test:1", "b.test:2"]
    for path in ("", "/items"):
        text = (await operator.get(f"/runs/{run.id}{path}")).text
        assert ">Proxies</a>" in text and ">Tokens</a>" not in text


async def test_the_tors_of_a_run_are_in_python_in_the_api_and_on_a_tab(dashboard, operator):
    run = await dashboard.make_run()
    starting = TorState(False, "it is at 14 %: DONE", 2, 1)
    await dashboard.queue.write_notes(f"tor {run.id}", {"w1": msgspec.json.encode(starting)})
    (row,) = (await operator.get(f"/api/runs/{run.id}/tor")).json()["rows"]
    expected = {"worker": "w1", "state": "down", "says": starting.says, "renewed": 2, "restarts": 1}
    assert row == expected
    assert ">Tor</a>" in (await operator.get(f"/runs/{run.id}")).text
    text = (await operator.get(f"/runs/{run.id}/tor")).text
    assert "<code>w1</code>" in text and starting.says in text
    handle = await dashboard.web.state.context.app.run(run.id)
    assert await handle.tor() == [("w1", starting)]
    await handle.renew_tor()
    assert await dashboard.queue.notes(f"tor orders {run.id}")


async def test_changes_have_a_tab_only_in_runs_that_compare_pages(dashboard, operator):
    run = await dashboard.make_run()
    assert ">Changes</a>" not in (await operator.get(f"/runs/{run.id}")).text
    visits = VisitStore(dashboard.queue, run.scraper, run.id, again=True)
    task = Task(url="https://shop.test/1", step="book")
    page = Response(url=task.url, status=200, headers=Headers(()), body=b"1")
    await visits.record(task, await visits.read(task), page, Harvest())
    await visits.close()
    assert ">Changes</a>" in (await operator.get(f"/runs/{run.id}/items")).text


async def test_hosts_and_missing_pages_are_updated_live_until_the_run_is_done(dashboard):
    run = await dashboard.make_run()
    context = dashboard.web.state.context

    async def events():
        context.sampler.expire()
        sample = await context.sampler.fresh_sample(run.id)
        return await stream._events(context, sample, run.id, {"may_act": True, "root": "", "shown_tabs": ()})

    before = await events()
    assert before["hosts"].count('<td class="n">1</td>') == 1 and "Missing pages" not in before["findings"]
    (lease,) = (await dashboard.queue.claim("machine-7-abcd", run_id=run.id)).leases
    await dashboard.queue.settle([Done(lease)])
    missing = MissingPages(count=7, examples=["https://shop1.example/gone"])
    left_out = WorkerLeftOut(links={}, missing=missing, files=FileCounts(), is_final=True)
    await dashboard.queue.write_notes(left_out_topic(run.id), {"one": msgspec.json.encode(left_out)})
    after = await events()
    assert '<td class="n">1</td>' not in after["hosts"] and "Missing pages: 7" in after["findings"]


async def test_a_cancelled_run_without_workers_says_so_instead_of_an_empty_card(dashboard, operator):
    run = await dashboard.queue.start_run("books")
    await dashboard.queue.enqueue(run.id, [Task(url="https://a.example/", step="listing")])
    await dashboard.queue.cancel(run.id)
    assert "No workers on this run." in (await operator.get(f"/runs/{run.id}")).text
