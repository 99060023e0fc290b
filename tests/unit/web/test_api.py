"""The API returns what the commands print, page by page, and names what is invalid."""

import csv
import io
import json

import pytest

from shoal.core.errors import QueueUnavailable
from shoal.core.model import Done, Task
from shoal.fleet.status.overview import OverviewReader
from shoal.fleet.status.rows import CountsRow, as_json, fields_of
from tests.unit.web.tokens import OPERATOR, READER


@pytest.fixture
async def reader(dashboard):
    async with dashboard.client(READER) as client:
        yield client


LISTS = ("items", "rejects", "dead", "records", "tasks", "hosts", "workers", "partitions")
EMPTY = ("expired", "proxies", "stale")


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
    for rest in ("", "/items", "/export", "/dead", "/tasks"):
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
