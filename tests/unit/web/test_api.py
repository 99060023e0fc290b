"""The API returns what the commands print, page by page, and names what is invalid."""

import asyncio
import csv
import io
import json
import re
from datetime import timedelta
from types import SimpleNamespace

import pytest

from shoal.cli.commands.inspect import hosts as host_commands
from shoal.cli.commands.inspect.status import runs, status
from shoal.cli.commands.inspect.top import top
from shoal.core.errors import QueueUnavailable
from shoal.core.http import Headers
from shoal.core.http import Response as HttpResponse
from shoal.core.model import MINUTE, Bury, Done, Release, Task
from shoal.core.revisits import RevisitBounds, RevisitPlan
from shoal.fleet.status.overview import OverviewReader
from shoal.fleet.status.rows.row import as_json, fields_of
from shoal.fleet.status.rows.runs import CountsRow
from shoal.scrape.harvest import Harvest
from shoal.worker.recrawl import VisitStore
from shoal.worker.revisits import write_plan
from tests.unit.builders import make_worker
from tests.unit.web.tokens import OPERATOR, READER


@pytest.fixture
async def reader(dashboard):
    async with dashboard.client(READER) as client:
        yield client


LISTS = ("items", "rejects", "dead", "records", "tasks", "hosts", "workers", "partitions")
EMPTY = ("expired", "proxies", "tor", "stale")


@pytest.mark.parametrize("name", LISTS)
async def test_a_list_of_a_run_can_be_read_row_by_row(dashboard, reader, name):
    run = await dashboard.make_run()
    whole = (await reader.get(f"/api/runs/{run.id}/{name}")).json()
    assert whole["rows"] and whole["next"] is None
    rows, after = [], {}
    while after is not None:
        page = (await reader.get(f"/api/runs/{run.id}/{name}", params={"limit": 1, **after})).json()
        rows += page["rows"]
        after = {"after": page["next"]} if page["next"] else None
    assert _without_durations(rows) == _without_durations(whole["rows"])


@pytest.mark.parametrize("name", EMPTY)
async def test_a_list_may_be_empty(dashboard, reader, name):
    run = await dashboard.make_run()
    assert (await reader.get(f"/api/runs/{run.id}/{name}")).json() == {"rows": [], "next": None}


async def test_newest_is_the_newest_run_in_every_path(dashboard, reader):
    unknown = await reader.get("/api/runs/newest")
    assert (unknown.status_code, unknown.json()["error"]) == (404, "UnknownRun")
    run = await dashboard.make_run()
    assert (await reader.get("/api/runs/newest")).json()["run_id"] == run.id
    assert (await reader.get("/api/runs/newest/items")).json()["rows"]
    assert run.id in (await reader.get("/runs/newest")).text
    async with dashboard.client(OPERATOR) as operator:
        assert (await operator.post("/api/runs/newest/pause")).json()["run_id"] == run.id


def _without_durations(rows):
    return [{key: value for key, value in row.items() if "seconds" not in key} for row in rows]


async def test_a_run_has_the_fields_of_the_command(dashboard, reader):
    run = await dashboard.make_run()
    found = (await reader.get(f"/api/runs/{run.id}")).json()
    stats = await dashboard.queue.stats(run.id)
    assert fields_of(CountsRow.of(stats)).items() <= found.items()
    assert (found["run_id"], found["scraper"], found["state"]) == (run.id, "books", "running")
    assert found["steps"]["listing"]["dead"] == 1
    (row,) = (await reader.get("/api/runs")).json()["rows"]
    assert row["run_id"] == run.id and row["started_at"]


async def test_the_overview_has_the_fields_of_the_command(dashboard, reader):
    await dashboard.make_run()
    found = (await reader.get("/api/overview")).json()
    seen = as_json((await OverviewReader(dashboard.queue).read()).row())
    assert found.keys() == seen.keys()
    assert found["runs"][0].keys() == seen["runs"][0].keys()
    assert found["hosts"][0].keys() == seen["hosts"][0].keys()
    assert found["errors"] == {"ValueError": 1}


async def test_stats_add_up_workers_tasks_and_throughput(dashboard, reader):
    await dashboard.make_run()
    found = (await reader.get("/api/stats")).json()
    assert found["runs"] == {"running": 1}
    assert found["workers"] == {"running": 1}
    assert (found["tasks"]["completed"], found["tasks"]["dead"], found["tasks"]["pending"]) == (3, 1, 1)
    assert found["rate"] == 0.0


@pytest.mark.parametrize("end", ["cancel", "finish"])
async def test_tasks_left_in_a_run_that_has_ended_are_left_in_that_run_only(dashboard, reader, end):
    run = await dashboard.make_run()
    grant = await dashboard.queue.claim("one", run_id=run.id, limit=9)
    await dashboard.queue.settle([Release(lease) for lease in grant.leases])
    await (
        dashboard.queue.cancel(run.id) if end == "cancel" else dashboard.queue.finish(run.id, "max_pages=4")
    )
    stats = (await reader.get("/api/stats")).json()["tasks"]
    assert (stats["remaining"], stats["pending"], stats["completed"]) == (0, 0, 3)
    hosts = (await reader.get("/api/hosts")).json()["rows"]
    assert sum(host["remaining"] for host in hosts) == 0
    page = (await reader.get("/")).text
    assert "<title>All done" in page and "<dt>Remaining tasks</dt><dd>0</dd>" in page
    assert (await reader.get(f"/api/runs/{run.id}")).json()["remaining"] == 1


@pytest.mark.parametrize("end", ["go on", "cancel", "finish"])
async def test_the_numbers_of_pages_api_and_commands_are_the_same(dashboard, reader, capsys, end):
    run = await dashboard.make_run()
    if end == "cancel":
        await dashboard.queue.cancel(run.id)
    elif end == "finish":
        await dashboard.queue.finish(run.id, "max_pages=4")
    url = f"sqlite:///{dashboard.folder}/queue.db"

    async def printed(command, *words, **options):
        await asyncio.to_thread(command, *words, queue=url, as_json=True, **options)
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    listed, shown = (await printed(runs))[0], (await printed(status, run.id))[0]
    (screen,) = await printed(top, once=True)
    all_hosts = await printed(host_commands.hosts, SimpleNamespace(invoked_subcommand=None), limit=99)
    rows = [listed, shown, (await reader.get("/api/runs")).json()["rows"][0]]
    rows.append((await reader.get(f"/api/runs/{run.id}")).json())
    assert all(
        {name: row[name] for name in COUNTS} == {name: listed[name] for name in COUNTS} for row in rows
    )
    stats = (await reader.get("/api/stats")).json()
    assert stats["errors"] == screen["errors"]
    assert {name: stats["tasks"][name] for name in HOST_COUNTS} == {
        name: sum(host[name] for host in all_hosts) for name in HOST_COUNTS
    }
    overview = (await reader.get("/")).text
    assert tile(overview, "Remaining tasks") == sum(host["remaining"] for host in all_hosts)
    assert tile(overview, "Failed attempts") == sum(screen["errors"].values())
    for page in (overview, (await reader.get("/runs")).text):
        found = [cell(page, name) for name in ("Done", "Left", "Dead", "Items")]
        assert found == [listed[name] for name in ("completed", "remaining", "dead", "items")]
    page = (await reader.get(f"/runs/{run.id}")).text
    assert [tile(page, name) for name in ("Pending", "Delayed", "Leased", "Dead", "Items")] == [
        shown[name] for name in ("pending", "delayed", "leased", "dead", "items")
    ]


COUNTS = ("state", "pending", "delayed", "leased", "completed", "dead", "remaining", "items", "rejected")
HOST_COUNTS = ("pending", "delayed", "leased", "completed", "dead", "remaining")


def tile(page, name):
    """Return the number under this name."""
    return int(re.search(rf"<dt>{name}</dt><dd[^>]*>([\d,]+)", page)[1].replace(",", ""))


def cell(page, name):
    """Return the number in this column of the first row."""
    return int(re.search(rf'data-label="{name}"[^>]*>(?:<a [^>]*>)?([\d,]+)', page)[1].replace(",", ""))


async def test_failed_attempts_count_for_five_minutes_after_a_workers_last_heartbeat(
    dashboard, reader, monkeypatch
):
    def worker(name, minutes):
        info = {"errors": {"ValueError": 16}}
        return make_worker(worker_id=name, state="ended", last_beat=minutes * MINUTE, info=info)

    async def workers(run_id=None):
        return [worker("one", 1.5), worker("two", 6)]

    monkeypatch.setattr(dashboard.queue, "workers", workers)
    assert tile((await reader.get("/")).text, "Failed attempts") == 16


async def test_dead_letters_and_items_of_all_runs_are_one_list_each(dashboard, reader):
    older, newer = await dashboard.make_run(), await dashboard.queue.start_run("books")
    await dashboard.queue.enqueue(newer.id, [Task(payload={"n": n}, step="listing") for n in range(2)])
    good, bad = (await dashboard.queue.claim("one", run_id=newer.id, limit=2)).leases
    await dashboard.queue.settle([Done(good, items=[1, 2, 3]), Bury(bad, "ValueError: no price")])
    for path, count, query in (("dead", 1, {"error": "price"}), ("items", 3, {"step": "listing"})):
        rows, after = [], ""
        while after is not None:
            words = {**query, "limit": 1, "after": after}
            page = (await reader.get(f"/api/{path}", params=words)).json()
            rows, after = [*rows, *page["rows"]], page["next"]
        assert [row["run_id"] for row in rows] == count * [newer.id] + count * [older.id]
        assert all(row["buried_at" if path == "dead" else "stored_at"] for row in rows)
        assert (await reader.get(f"/api/{path}?step=book")).json()["rows"] == []
    listed = [(one.run.id, one.value.error) async for one in dashboard.app.dead()]
    assert listed == [(newer.id, "ValueError: no price"), (older.id, "ValueError: no price")]
    assert len([one async for one in dashboard.app.items(step="listing")]) == 6
    page = (await reader.get("/dead")).text
    assert all(f"/runs/{run.id}/dead/" in page for run in (older, newer))
    assert (await reader.get("/api/dead?after=nothing%201")).status_code == 404


async def test_lists_can_be_filtered(dashboard, reader):
    run = await dashboard.make_run()
    base = f"/api/runs/{run.id}"
    assert (await reader.get(f"{base}/items?step=book")).json()["rows"] == []
    (dead,) = (await reader.get(f"{base}/dead?error=price&step=listing")).json()["rows"]
    assert dead["error"] == "ValueError: no price"
    assert (await reader.get(f"{base}/dead?error=other")).json()["rows"] == []
    (task,) = (await reader.get(f"{base}/tasks?state=pending")).json()["rows"]
    (record,) = (await reader.get(f"{base}/records", params={"key": task["url"]})).json()["rows"]
    assert record["steps"]["listing"]["state"] == "pending"


async def test_a_dead_letter_is_shown_with_its_attempts(dashboard, reader):
    run = await dashboard.make_run()
    (row,) = (await reader.get(f"/api/runs/{run.id}/dead")).json()["rows"]
    whole = (await reader.get(f"/api/runs/{run.id}/dead/{row['id']}")).json()
    assert row.items() <= whole.items()
    assert whole["history"][0]["error"] == "ValueError: no price"
    response = await reader.get(f"/api/runs/{run.id}/dead/{'0' * 32}")
    assert (response.status_code, response.json()["error"]) == (404, "UnknownLetter")
    assert f"shoal dead list {run.id}" in response.json()["message"]


async def test_the_scrapers_are_those_of_the_project(reader):
    (row,) = (await reader.get("/api/scrapers")).json()["rows"]
    assert (row["name"], row["steps"], row["says"]) == ("books", "listing, book", None)


async def test_a_scraper_is_reloaded_when_its_file_changes_and_not_on_every_request(dashboard, reader):
    file, mark = dashboard.folder / "books.py", dashboard.folder / "loads"
    counting = f"with open({str(mark)!r}, 'a') as mark:\n    mark.write('x')\n"

    async def rows(code):
        file.write_text(code)
        return [(await reader.get("/api/scrapers")).json()["rows"] for _ in range(5)]

    code = file.read_text()
    assert [row["steps"] for (row,) in await rows(counting + code)] == ["listing, book"] * 5
    assert mark.read_text() == "x"
    changed = counting + code.replace("def book(", "def volume(")
    assert [row["steps"] for (row,) in await rows(changed)] == ["listing, volume"] * 5
    assert mark.read_text() == "xx"
    assert all("ValueError" in row["says"] for (row,) in await rows(f"{counting}raise ValueError"))
    assert mark.read_text() == "xxx"
    assert [row["says"] for (row,) in await rows(code)] == [None] * 5, "as soon as it is fixed"


async def test_metrics_and_health_respond(dashboard, reader):
    await dashboard.make_run()
    assert 'shoal_queue_tasks{scraper="books",state="dead"} 1.0' in (await reader.get("/metrics")).text
    assert (await reader.get("/healthz")).json() == {"status": "ok"}
    assert (await reader.get("/readyz")).json() == {"status": "ready"}


async def test_an_unavailable_queue_is_reported_and_the_server_keeps_running(dashboard, reader, monkeypatch):
    async def unavailable(*_, **__):
        raise QueueUnavailable("postgresql://shoal:c4nary@db/shoal", "refused")

    for verb in ("runs", "notes"):
        monkeypatch.setattr(dashboard.queue, verb, unavailable)
    response = await reader.get("/api/runs")
    assert (response.status_code, response.json()["error"]) == (503, "QueueUnavailable")
    assert "c4nary" not in response.text
    assert response.json()["message"].endswith("refused. Nothing was lost. Try again when it is back.")
    assert (await reader.get("/api/overview")).status_code == 503
    assert (await reader.get("/healthz")).status_code == 200
    ready = await reader.get("/readyz")
    assert (ready.status_code, ready.json()) == (503, {"status": "unavailable"})


@pytest.mark.parametrize(
    "run_id",
    [
        "nothing",
        "..",
        "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "..%2f..%2fqueue.db",
        "..%5c..%5cwindows",
        "%00",
        "a%0d%0ab",
        "x" * 200,
        "%F0%9F%90%9F",
        "';drop table run;--",
        "/etc/passwd",
    ],
)
async def test_an_invalid_run_id_is_not_found_whatever_it_looks_like(dashboard, reader, run_id):
    run = await dashboard.make_run()
    for rest in ("", "/rejects", "/export", "/tasks"):
        response = await reader.get(f"/api/runs/{run_id}{rest}", follow_redirects=False)
        assert response.status_code == 404, response.url
        assert "root:" not in response.text
    assert (await dashboard.queue.run(run.id)).id == run.id


@pytest.mark.parametrize("run_id", ["%00", "a%0ab", "a b", "%C3%A9", "x" * 101])
async def test_an_impossible_run_id_never_reaches_the_queue(dashboard, reader, monkeypatch, run_id):
    calls = []
    monkeypatch.setattr(dashboard.queue, "items", lambda *given, **more: calls.append(given))
    response = await reader.get(f"/api/runs/{run_id}/items")
    assert (response.status_code, response.json()["error"], calls) == (404, "UnknownRun", [])


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=x", "limit"),
        ("after=x", "after"),
        ("step=a%00b", "step"),
        (f"step={'s' * 501}", "step"),
        ("state=lost", "state"),
    ],
)
async def test_an_invalid_parameter_is_rejected_by_name(dashboard, reader, query, word):
    run = await dashboard.make_run()
    response = await reader.get(f"/api/runs/{run.id}/tasks?{query}")
    assert (response.status_code, response.json()["error"]) in (
        (422, "InvalidInput"),
        (422, "InvalidSetting"),
    )
    assert word in response.json()["message"]


async def test_changes_of_a_recrawl_are_listed_a_page_at_a_time_here_and_in_the_control_room(
    dashboard, reader
):
    found = await dashboard.queue.start_run("books")
    for run_id, price in (("before", 10), (found.id, 12)):
        for number in range(3):
            visits = VisitStore(dashboard.queue, "books", run_id, again=False)
            task = Task(url=f"https://shop.test/{number}", step="book")
            harvest = Harvest(items=[{"title": "<b>Hat</b>", "price": price}])
            page = HttpResponse(url=task.url, status=200, headers=Headers(()), body=b"%d" % price)
            await visits.record(task, await visits.read(task), page, harvest)
            await visits.close()
    path, seen, after = f"/api/runs/{found.id}/changes?limit=2", [], ""
    while after is not None:
        page = (await reader.get(f"{path}{after}")).json()
        seen += page["rows"]
        after = f"&after={page['next']}" if page["next"] else None
    assert sorted(row["url"][-1] for row in seen) == ["0", "1", "2"]
    assert {(row["change"], row["field"], row["old"], row["new"]) for row in seen} == {
        ("changed", "price", 10, 12)
    }
    assert (await reader.get(f"{path}&only=gone")).json()["rows"] == []
    assert (await reader.get(f"{path}&after=nowhere")).json()["error"] == "InvalidSetting"
    shown = (await reader.get(f"/runs/{found.id}/changes")).text
    assert shown.count("https://shop.test/") >= 3 and "changed (3)" in shown and "not due (0)" in shown
    planned = f"/api/runs/{found.id}/recrawl-plan?limit=2"
    assert "revisit was not set in run" in (await reader.get(planned)).json()["message"]
    bounds = RevisitBounds(timedelta(0, 0, 1), timedelta(days=1))
    await write_plan(dashboard.queue, found.id, RevisitPlan(bounds=bounds, pages=1))
    plan = (await reader.get(planned)).json()
    assert (plan["known"], plan["fetch"], plan["revisit_pages"]) == (3, 1, 1)
    assert plan["reasons"] == {"new": 0, "date": 0, "due": 1, "over_budget": 2, "not_due": 0}
    assert [row["reason"] for row in plan["pages"]] == ["due"]


async def test_an_export_is_streamed_and_safe_for_spreadsheets(dashboard, reader):
    run = await dashboard.queue.start_run("books")
    await dashboard.queue.enqueue(
        run.id, [Task(url=f"https://h{n}.example.com/", step="book") for n in range(3)]
    )
    grant = await dashboard.queue.claim("w-1-a", run_id=run.id, limit=3)
    await dashboard.queue.settle([Done(one, items=[{"title": "=1+1", "n": 7}]) for one in grant.leases])
    base = f"/api/runs/{run.id}/export"
    lines = (await reader.get(base)).text.splitlines()
    assert [json.loads(line) for line in lines] == [{"title": "=1+1", "n": 7}] * 3
    response = await reader.get(f"{base}?format=csv")
    rows = list(csv.DictReader(io.StringIO(response.text)))
    assert rows == [{"title": "'=1+1", "n": "7"}] * 3
    assert response.headers["content-disposition"] == f'attachment; filename="{run.id}.csv"'
    raw = await reader.get(f"{base}?format=csv&raw=true")
    assert "\n=1+1,7" in raw.text.replace("\r", "")
    assert (await reader.get(f"{base}?step=listing")).text == ""
    assert (await reader.get(f"{base}?format=exe")).status_code == 422
    assert json.loads((await reader.get(f"{base}?envelope=true")).text.splitlines()[0])["step"] == "book"


async def test_every_response_is_in_the_openapi_schema(dashboard):
    async with dashboard.client(OPERATOR) as operator:
        described = (await operator.get("/api/openapi.json")).json()
    named = described["components"]["schemas"]
    for path, methods in described["paths"].items():
        assert path.startswith("/api/") or path in ("/healthz", "/readyz", "/metrics")
        for method, operation in methods.items():
            good = [response for status, response in operation["responses"].items() if status.startswith("2")]
            schemas = [content["schema"] for response in good for content in response["content"].values()]
            assert schemas and all(schema.get("$ref") or schema.get("type") for schema in schemas), path
            if path.startswith("/api/"):
                assert {"401", "404", "422", "503"} <= operation["responses"].keys(), (method, path)
    assert "HTTPValidationError" not in named


async def test_there_are_no_docs_pages_that_load_scripts_from_other_servers(dashboard):
    async with dashboard.client(OPERATOR) as operator:
        assert [(await operator.get(path)).status_code for path in ("/docs", "/redoc")] == [404, 404]
