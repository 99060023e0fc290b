"""The actions of an operator through the API, and the audit log."""

import re

import pytest

from shoal.core.errors import NobodyListens, UnknownRun
from shoal.core.model import Done, Task
from shoal.fleet.command_hints import worker_command
from shoal.fleet.ondemand.dispatch import Scraped
from shoal.queue.run_args import stored_args
from shoal.web.actions import OperatorActions
from shoal.web.auth import Principal
from shoal.web.errors import ApiError
from shoal.worker.ipc.calls import FollowedLink
from tests.unit.web.tokens import OPERATOR, READER


@pytest.fixture
async def operator(dashboard):
    async with dashboard.client(OPERATOR, address="10.1.2.3") as client:
        yield client


async def read_audit_log(operator):
    rows = (await operator.get("/api/actions")).json()["rows"]
    return [(row["who"], row["role"], row["action"], row["target"]) for row in rows]


async def test_pause_resume_and_cancel_change_the_run_and_are_logged(dashboard, operator):
    run = await dashboard.make_run()
    base = f"/api/runs/{run.id}"
    for verb, state in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")):
        assert (await operator.post(f"{base}/{verb}")).json() == {"run_id": run.id, "state": state}
    response = await operator.post(f"{base}/resume")
    assert (response.status_code, response.json()["error"]) == (409, "RunConflict")
    assert await read_audit_log(operator) == [
        ("10.1.2.3", "operator", verb, run.id) for verb in ("cancel", "resume", "pause")
    ]


@pytest.mark.parametrize("verb", ["pause", "cancel", "resume"])
async def test_a_run_that_has_finished_stays_so_and_is_called_that(dashboard, operator, verb):
    run = await dashboard.queue.start_run("books")
    await dashboard.queue.enqueue(run.id, [Task(url="https://shop.example.com/", step="listing")])
    (lease,) = (await dashboard.queue.claim("machine-7-abcd", run_id=run.id)).leases
    await dashboard.queue.settle([Done(lease)])
    changed = await operator.post(f"/api/runs/{run.id}/{verb}")
    assert changed.json() == {"run_id": run.id, "state": "finished"}


async def test_a_run_that_has_used_its_pages_is_resumed_with_a_larger_limit_only(dashboard, operator):
    run = await dashboard.make_run()
    await dashboard.queue.finish(run.id, "max_pages=4 reached")
    for path, body in (("resume", None), ("workers", {"workers": 1})):
        refused = await operator.post(f"/api/runs/{run.id}/{path}", json=body)
        assert (refused.status_code, refused.json()["error"]) == (409, "RunConflict"), path
        assert re.search(rf"Raise the limit: shoal set {run.id} .*max_pages=8", refused.json()["message"])
    assert (await dashboard.queue.run(run.id)).state == "partial"
    page = (await operator.get(f"/runs/{run.id}")).text
    assert "It has used its max_pages=4" in page and f"{run.id}/resume" not in page
    (letter,) = [one async for one in dashboard.queue.dead(run.id)]
    await dashboard.queue.replay(run.id, [letter.id])
    await dashboard.queue.finish(run.id, "max_pages=4 reached")
    resumed = await operator.post(f"/api/runs/{run.id}/resume")
    assert resumed.json()["state"] == "running", "one page is left"


async def test_settings_of_a_run_are_changed_and_logged(dashboard, operator):
    run = await dashboard.make_run()
    path = f"/api/runs/{run.id}/settings"
    changed = await operator.patch(path, json={"settings": {"rate": "2/s", "per_host": 1, "max_pages": 9}})
    assert changed.status_code == 200, changed.text
    rows = {row["setting"]: row for row in changed.json()["settings"]}
    assert (rows["rate"]["value"], rows["per_host"]["value"], rows["max_pages"]["value"]) == ("2/s", "1", "9")
    assert (rows["rate"]["source"], rows["rate"]["change"]) == ("run", "now")
    assert (await operator.get(path)).json() == changed.json()
    settings = (await dashboard.queue.run(run.id)).settings
    assert (settings.per_host, settings.host_delay.total_seconds()) == (1, pytest.approx(0.5, abs=0.01))
    assert await read_audit_log(operator) == [("10.1.2.3", "operator", "set", run.id)]


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"ratee": "2/s"}, "Did you mean 'rate'?"),
        ({"rate": "fast"}, "rate must be a rate"),
        ({"fetch": "browser"}, "is read when a worker starts"),
        ({"ttl": "1h"}, "counts from the moment a task is queued"),
        ({"allow_private": ["10.0.0.0/8"]}, "cannot be set through the API"),
        ({}, "settings"),
    ],
)
async def test_what_cannot_be_changed_is_refused_by_name_and_changes_nothing(
    dashboard, operator, settings, word
):
    run = await dashboard.make_run()
    refused = await operator.patch(f"/api/runs/{run.id}/settings", json={"settings": settings})
    assert refused.status_code == 422 and word in refused.json()["message"]
    assert await dashboard.queue.run(run.id) == run
    assert await read_audit_log(operator) == []


async def test_the_page_of_a_run_has_a_form_for_its_settings_that_readers_do_not_get(dashboard, operator):
    run = await dashboard.make_run()
    page = (await operator.get(f"/runs/{run.id}")).text
    assert f'action="/runs/{run.id}/settings"' in page and "<option>rate</option>" in page
    assert "<option>allow_private</option>" not in page
    async with dashboard.client(READER) as reader:
        assert f'action="/runs/{run.id}/settings"' not in (await reader.get(f"/runs/{run.id}")).text
        refused = await reader.patch(f"/api/runs/{run.id}/settings", json={"settings": {"rate": 1}})
        assert refused.status_code == 403


async def test_the_form_of_settings_takes_what_the_command_takes(dashboard, operator):
    run = await dashboard.make_run()
    typed = {"statuses": "404,410", "skip": '["*/a*", "*/b*"]', "retry": '{"delay": "60s"}', "max_pages": "7"}
    for setting, value in typed.items():
        form = {"setting": setting, "value": value}
        assert (await operator.post(f"/runs/{run.id}/settings", data=form)).status_code == 303
    rows = (await operator.get(f"/api/runs/{run.id}/settings")).json()
    shown = {row["setting"]: row["value"] for row in rows["settings"]}
    assert shown["statuses"] == "404,410" and shown["skip"] == '["*/a*","*/b*"]'
    assert shown["retry"] == '{"delay":"60s"}' and shown["max_pages"] == "7"


async def test_a_purged_run_is_deleted(dashboard, operator):
    run = await dashboard.make_run()
    refused = await operator.delete(f"/api/runs/{run.id}")  # a worker runs on it
    assert (refused.status_code, refused.json()["error"]) == (409, "RunConflict")
    await dashboard.queue.cancel(run.id)
    assert (await operator.delete(f"/api/runs/{run.id}")).json() == {"run_id": run.id, "purged": True}
    with pytest.raises(UnknownRun):
        await dashboard.queue.run(run.id)
    response = await operator.delete(f"/api/runs/{run.id}")
    assert (response.status_code, response.json()["error"]) == (404, "UnknownRun")
    assert await read_audit_log(operator) == [("10.1.2.3", "operator", "purge", run.id)]


async def test_dead_letters_are_replayed_by_id_and_dropped_by_filter(dashboard, operator):
    run = await dashboard.make_run()
    base = f"/api/runs/{run.id}/dead"
    (letter,) = (await operator.get(base)).json()["rows"]
    none = await operator.post(f"{base}/drop", json={"where": {"error": "other"}})
    assert none.json() == {"run_id": run.id, "dropped": 0}
    one = await operator.post(f"{base}/replay", json={"ids": [letter["id"]]})
    assert one.json() == {"run_id": run.id, "replayed": 1, "delay_seconds": 0.0}
    assert (await dashboard.queue.stats(run.id)).dead == 0


async def test_dead_letters_are_replayed_after_a_delay(dashboard, operator):
    run = await dashboard.make_run()
    before = (await dashboard.queue.stats(run.id)).delayed
    path = f"/api/runs/{run.id}/dead/replay"
    for wrong in (-1, 1e12, "soon"):
        assert (await operator.post(path, json={"where": {}, "delay_seconds": wrong})).status_code == 422
    done = await operator.post(path, json={"where": {}, "delay_seconds": 600})
    assert done.json() == {"run_id": run.id, "replayed": 1, "delay_seconds": 600.0}
    stats = await dashboard.queue.stats(run.id)
    assert (stats.dead, stats.delayed) == (0, before + 1)


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({}, "ids or where"),
        ({"ids": [], "where": {}}, "not both"),
        ({"ids": ["x'; drop table dead"]}, "ids[0]"),
        ({"where": {"hosst": "a"}}, "where.hosst is not known"),
        ({"where": {"buried_before": "yesterday"}}, "where.buried_before"),
        ([1], "body"),
    ],
)
async def test_all_dead_letters_are_never_selected_by_mistake(dashboard, operator, body, word):
    run = await dashboard.make_run()
    for verb in ("replay", "drop"):
        response = await operator.post(f"/api/runs/{run.id}/dead/{verb}", json=body)
        assert response.status_code == 422
        assert word in response.json()["message"]
    assert (await dashboard.queue.stats(run.id)).dead == 1


async def test_the_cache_is_shown_by_the_api_and_below_the_hosts(dashboard, operator):
    run = await dashboard.make_run()
    assert "Response cache" not in (await operator.get("/hosts")).text
    await dashboard.queue.write_notes("cache", {"a": b"12345"})
    used = {"cache": {"hits": 3, "misses": 1}}
    await dashboard.queue.beat("worker-9", run_id=run.id, state="running", info=used)
    found = (await operator.get("/api/cache")).json()
    assert (found["entries"], found["bytes"]) == (1, 5) and found["oldest_seconds"] >= 0
    assert found["runs"] == [{"run_id": run.id, "hits": 3, "misses": 1, "hit_rate": 0.75}]
    page = (await operator.get("/hosts")).text
    assert "Response cache" in page and "75.0 %" in page
    assert (await operator.get("/api/cache", params={"run_id": "nowhere"})).status_code == 404


async def test_a_host_is_paused_and_slowed(dashboard, operator):
    await dashboard.make_run()
    paused = await operator.post("/api/hosts/Shop1.example.com/pause", json={"seconds": 600})
    assert paused.json() == {"host": "shop1.example.com", "paused_seconds": 600.0}
    await operator.post("/api/hosts/shop1.example.com/slow", json={"seconds": 2.5})
    rows = (await operator.get("/api/hosts")).json()["rows"]
    (host,) = [row for row in rows if row["host"] == "shop1.example.com"]
    assert 590 < host["paused_seconds"] <= 600
    assert host["delay_seconds"] == 2.5
    assert [action for _, _, action, _ in await read_audit_log(operator)] == ["slow host", "pause host"]


@pytest.mark.parametrize("seconds", [-1, 1e9, "60", None, True])
async def test_a_host_is_paused_for_a_number_of_seconds_within_bounds(operator, seconds):
    response = await operator.post("/api/hosts/a.example.com/pause", json={"seconds": seconds})
    assert response.status_code == 422
    assert response.json()["message"].startswith("seconds")


async def test_a_run_is_started_like_the_command_does(dashboard, operator):
    body = {
        "scraper": "books",
        "urls": ["https://a.example.com/1", "https://a.example.com/1", "not a url"],
        "tasks": [
            {"url": "https://a.example.com/b", "step": "book", "priority": 9},
            {"url": "https://a.example.com/c", "step": "boook"},
        ],
        "settings": {"rate": "2/s"},
        "run_id": "mine",
    }
    response = await operator.post("/api/runs", json=body)
    assert response.status_code == 201
    found = response.json()
    refused = found.pop("refused")
    command = found.pop("worker_command")
    assert [one is None for one in found.pop("ids")].count(True) == 2
    counts = {"enqueued": 2, "duplicate": 1, "known": 0, "invalid": 2}
    assert found == {"status": "queued", "run_id": "mine", **counts}
    assert [one["where"] for one in refused] == ["urls[2]", "tasks[1]"]
    assert "Did you mean 'book'?" in refused[1]["reason"]
    assert command.startswith("shoal work books --run mine --queue sqlite:///")
    assert "--set" not in command, "the run remembers its settings"
    assert (await dashboard.queue.run("mine")).settings.host_delay.total_seconds() == pytest.approx(
        0.5, abs=0.01
    )
    again = await operator.post("/api/runs/mine/enqueue", json={"urls": ["https://a.example.com/2"]})
    assert (again.status_code, again.json()["enqueued"]) == (200, 1)
    assert [action for _, _, action, _ in await read_audit_log(operator)] == ["enqueue", "start"]


async def test_a_run_without_urls_gets_the_seeds_and_arguments_of_its_scraper(dashboard, operator):
    nothing = await operator.post("/api/runs", json={"scraper": "books"})
    assert (nothing.status_code, nothing.json()["message"]) == (
        422,
        'Give URLs, a sitemap or a feed, or add seeds to shoal.toml: [scrapers.books.seeds] and url = ["https://…"]',
    )
    file = dashboard.folder / "books.py"
    declared = """
books.declared_args = Scraper("books", args={"tag": str, "pages": 2}).declared_args

@books.seeds
def seeds(args):
    yield from (f"https://a.example.com/{args.tag}/{number}" for number in range(args.pages))
"""
    file.write_text(file.read_text() + declared)
    missing = await operator.post("/api/runs", json={"scraper": "books"})
    assert missing.status_code == 422 and "argument 'tag' of 'books' is missing" in missing.json()["message"]
    wrong = await operator.post("/api/runs", json={"scraper": "books", "args": {"tg": "x"}})
    assert wrong.status_code == 422 and "Did you mean 'tag'?" in wrong.json()["message"]
    assert await dashboard.queue.runs() == []
    body = {"scraper": "books", "args": {"tag": "x", "pages": 3}, "run_id": "mine"}
    assert (await operator.post("/api/runs", json=body)).json()["enqueued"] == 3
    assert await stored_args(dashboard.queue, "mine") == {"tag": "x", "pages": 3}
    await operator.delete("/api/runs/mine")
    assert await stored_args(dashboard.queue, "mine") is None


async def test_tasks_that_other_runs_have_queued_are_skipped_and_can_be_forgotten(dashboard, operator):
    body = {"scraper": "books", "urls": ["https://a.example.com/1"], "settings": {"dedup": "30d"}}
    found = [(await operator.post("/api/runs", json=body)).json() for _ in range(2)]
    assert [(one["enqueued"], one["known"]) for one in found] == [(1, 0), (0, 1)]
    async with dashboard.client(READER) as reader:
        assert (await reader.post("/api/scrapers/books/forget")).status_code == 403
    assert (await operator.post("/api/scrapers/boks/forget")).status_code == 404
    response = await operator.post("/api/scrapers/books/forget")
    assert (response.status_code, response.json()) == (200, {"scraper": "books", "forgotten": 1})
    assert (await operator.post("/api/runs", json=body)).json()["enqueued"] == 1
    details = (await operator.get("/api/actions")).json()["rows"]
    assert [row["details"] for row in details if row["action"] == "forget"] == [{"tasks": 1}]
    start = {"scraper": "books", "enqueued": 0, "known": 1, "hosts": ["a.example.com"]}
    assert start in [row["details"] for row in details]


async def test_tasks_are_added_to_a_run_whatever_name_the_project_has_for_its_scraper(dashboard_with):
    async with dashboard_with(project='[scrapers.shop]\nmodule = "books.py:books"\n') as dashboard:
        await dashboard.queue.start_run("books", run_id="mine")
        await dashboard.queue.start_run("strange", run_id="other")
        async with dashboard.client(OPERATOR) as operator:
            body = {"urls": ["https://a.example.com/"]}
            added = await operator.post("/api/runs/mine/enqueue", json=body)
            strange = await operator.post("/api/runs/other/enqueue", json=body)
    assert added.json()["worker_command"].startswith("shoal work shop --run mine")
    assert (strange.status_code, strange.json()["error"]) == (404, "UnknownScraper")


@pytest.mark.parametrize("name", ["books.py", "books.py:books", "./books.py", "../x/books.py", "os", "boks"])
async def test_only_scrapers_of_the_project_are_started_never_a_file(dashboard, operator, name):
    for path, body in (
        ("/api/runs", {"scraper": name, "urls": ["https://a.example.com/"]}),
        ("/api/scrape", {"scraper": name, "url": "https://a.example.com/"}),
    ):
        response = await operator.post(path, json=body)
        assert (response.status_code, response.json()["error"]) == (404, "UnknownScraper")
    assert await dashboard.queue.runs() == []


@pytest.mark.parametrize(
    "settings",
    [
        {"warc": "/tmp/x.warc.gz"},
        {"playback": "/etc"},
        {"cache": "10m disk:/tmp/x"},
        {"proxies": "/etc/passwd"},
        {"tokens": "env:HOME hosts=evil.example"},
        {"allow_private": ["127.0.0.1"]},
        {"headers": {"Authorization": "x"}},
        {"browser": {"args": ["--no-sandbox"]}},
        {"rtae": "1/s"},
    ],
    ids=str,
)
async def test_a_setting_that_names_a_file_a_secret_or_a_private_network_is_rejected(
    dashboard, operator, settings
):
    body = {"scraper": "books", "urls": ["https://a.example.com/"], "settings": settings}
    response = await operator.post("/api/runs", json=body)
    assert (response.status_code, response.json()["error"]) == (422, "InvalidSetting")
    assert f"settings.{next(iter(settings))}" in response.json()["message"]
    assert await dashboard.queue.runs() == []


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"scraper": "books"}, "URLs, a sitemap or a feed"),
        ({"scraper": "books", "urls": ["https://a.example/"], "file": "x"}, "file is not known"),
        ({"scraper": "books", "tasks": [{"url": "https://a.example/", "priority": 10}]}, "tasks[0].priority"),
        ({"scraper": "books", "tasks": [{"url": "https://a.example/", "proirity": 1}]}, "tasks[0].proirity"),
        ({"scraper": "books", "tasks": [{"url": "https://a.example/", "ttl": 0}]}, "tasks[0].ttl"),
        ({"scraper": "books", "tasks": [{"url": "https://a.example/", "delay": -1}]}, "tasks[0].delay"),
        ({"scraper": "books", "urls": "https://a.example/"}, "urls"),
        ({"scraper": "books", "urls": [1]}, "urls[0]"),
        ({"scraper": "books", "urls": ["https://a.example/"], "run_id": "../x"}, "run_id"),
        ({"urls": ["https://a.example/"]}, "scraper"),
    ],
)
async def test_invalid_input_is_rejected_by_name(dashboard, operator, body, word):
    response = await operator.post("/api/runs", json=body)
    assert response.status_code == 422
    assert word in response.json()["message"]
    assert await dashboard.queue.runs() == []


async def test_a_body_must_be_json_with_a_json_content_type(operator):
    plain = {"Content-Type": "text/plain"}
    body = b'{"scraper": "books", "urls": ["https://a.example/"]}'
    assert (await operator.post("/api/runs", content=body, headers=plain)).status_code == 422
    json = {"Content-Type": "application/json"}
    response = await operator.post("/api/runs", content=b"{", headers=json)
    assert (response.status_code, response.json()["error"]) == (422, "InvalidInput")
    assert "JSON" in response.json()["message"]


async def test_scrape_fails_without_an_on_demand_worker(operator):
    response = await operator.post("/api/scrape", json={"scraper": "books", "url": "https://a.example.com/"})
    assert (response.status_code, response.json()["error"]) == (503, "NobodyListens")


async def test_a_call_returns_its_items_and_the_links_that_its_step_would_have_followed(
    operator, dashboard, monkeypatch
):
    async def call(scraper, task, **options):
        follow = [FollowedLink(url="https://a.example.com/2", step="book")]
        return Scraped(run_id="r", task_id="t", worker_id="w", items=[{"title": "A"}], follow=follow)

    monkeypatch.setattr(dashboard.web.state.context.app, "call", call)
    response = await operator.post("/api/scrape", json={"scraper": "books", "url": "https://a.example.com/"})
    found = response.json()
    assert (response.status_code, found["items"], found["rejected"]) == (200, [{"title": "A"}], 0)
    assert found["follow"] == [{"url": "https://a.example.com/2", "step": "book"}]


async def test_a_call_passes_its_strategy_on_and_refuses_an_unknown_one_or_step(
    operator, dashboard, monkeypatch
):
    asked = []

    async def call(scraper, task, *, timeout, strategy):
        asked.append((scraper, task.payload, strategy))
        raise NobodyListens(scraper)

    monkeypatch.setattr(dashboard.web.state.context.app, "call", call)
    body = {"scraper": "books", "payload": {"user": "ann"}, "strategy": "round_robin"}
    assert (await operator.post("/api/scrape", json=body)).status_code == 503
    assert (await operator.post("/api/scrape", json=body | {"strategy": "robin"})).status_code == 422
    unknown = await operator.post("/api/scrape", json=body | {"step": "nope"})
    assert (unknown.status_code, "step names 'nope'" in unknown.json()["message"]) == (422, True)
    assert asked == [("books", {"user": "ann"}, "round_robin")]


async def test_an_action_checks_the_role_itself(dashboard):
    run = await dashboard.make_run()
    with pytest.raises(ApiError):
        await OperatorActions(dashboard.web.state.context, Principal("reader", "here")).cancel(run.id)
    assert (await dashboard.queue.run(run.id)).state == "running"


async def test_the_worker_command_contains_no_secret(dashboard):
    from shoal.fleet.build_job import project_job

    job = project_job(dashboard.app.project, "postgresql://shoal:c4nary@db/shoal", "books")
    assert "c4nary" not in worker_command(job, "mine")


async def test_a_scraper_that_cannot_be_loaded_reports_why_without_secrets(dashboard, operator):
    (dashboard.folder / "books.py").write_text("raise ValueError('https://u:c4nary@x.example/?token=c4nary')")
    (row,) = (await operator.get("/api/scrapers")).json()["rows"]
    assert "ValueError" in row["says"]
    response = await operator.post("/api/runs", json={"scraper": "books", "urls": ["https://a.example/"]})
    assert response.status_code == 422
    assert "c4nary" not in response.text + row["says"]
    assert OPERATOR not in response.text
