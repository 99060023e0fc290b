"""What an operator may do by the API, and the notes that it leaves."""

import pytest

from shoal.core.errors import UnknownRun
from shoal.fleet.retyping import worker_command
from shoal.web import deeds
from shoal.web.answers import Refused
from shoal.web.guard import Guest
from tests.unit.web.doors import OPERATOR, READER


@pytest.fixture
async def operator(house):
    async with house.client(OPERATOR, address="10.1.2.3") as client:
        yield client


async def noted(operator):
    rows = (await operator.get("/api/actions")).json()["rows"]
    return [(row["who"], row["role"], row["action"], row["target"]) for row in rows]


async def test_a_run_is_paused_resumed_and_cancelled_and_who_did_so_is_known(house, operator):
    run = await house.filled()
    base = f"/api/runs/{run.id}"
    for verb, state in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")):
        assert (await operator.post(f"{base}/{verb}")).json() == {"run_id": run.id, "state": state}
    answer = await operator.post(f"{base}/resume")
    assert (answer.status_code, answer.json()["error"]) == (409, "RunConflict")
    assert await noted(operator) == [
        ("10.1.2.3", "operator", verb, run.id) for verb in ("cancel", "resume", "pause")
    ]


async def test_a_purged_run_is_gone(house, operator):
    run = await house.filled()
    assert (await operator.delete(f"/api/runs/{run.id}")).json() == {"run_id": run.id, "purged": True}
    with pytest.raises(UnknownRun):
        await house.queue.run(run.id)
    answer = await operator.delete(f"/api/runs/{run.id}")
    assert (answer.status_code, answer.json()["error"]) == (404, "UnknownRun")
    assert await noted(operator) == [("10.1.2.3", "operator", "purge", run.id)]


async def test_dead_letters_are_replayed_by_id_and_dropped_by_filter(house, operator):
    run = await house.filled()
    base = f"/api/runs/{run.id}/dead"
    (letter,) = (await operator.get(base)).json()["rows"]
    none = await operator.post(f"{base}/drop", json={"where": {"error": "other"}})
    assert none.json() == {"run_id": run.id, "dropped": 0}
    one = await operator.post(f"{base}/replay", json={"ids": [letter["id"]]})
    assert one.json() == {"run_id": run.id, "replayed": 1}
    assert (await house.queue.stats(run.id)).dead == 0


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
async def test_all_dead_letters_are_never_meant_by_mistake(house, operator, body, word):
    run = await house.filled()
    for verb in ("replay", "drop"):
        answer = await operator.post(f"/api/runs/{run.id}/dead/{verb}", json=body)
        assert answer.status_code == 422
        assert word in answer.json()["message"]
    assert (await house.queue.stats(run.id)).dead == 1


async def test_a_host_is_paused_and_slowed(house, operator):
    await house.filled()
    paused = await operator.post("/api/hosts/Shop1.example.com/pause", json={"seconds": 600})
    assert paused.json() == {"host": "shop1.example.com", "paused_seconds": 600.0}
    await operator.post("/api/hosts/shop1.example.com/slow", json={"seconds": 2.5})
    rows = (await operator.get("/api/hosts")).json()["rows"]
    (host,) = [row for row in rows if row["host"] == "shop1.example.com"]
    assert 590 < host["paused_seconds"] <= 600
    assert host["delay_seconds"] == 2.5
    assert [action for _, _, action, _ in await noted(operator)] == ["slow host", "pause host"]


@pytest.mark.parametrize("seconds", [-1, 1e9, "60", None, True])
async def test_a_host_is_paused_for_a_number_of_seconds_within_bounds(operator, seconds):
    answer = await operator.post("/api/hosts/a.example.com/pause", json={"seconds": seconds})
    assert answer.status_code == 422
    assert answer.json()["message"].startswith("seconds")


async def test_a_run_is_started_as_the_command_does_it(house, operator):
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
    answer = await operator.post("/api/runs", json=body)
    assert answer.status_code == 201
    found = answer.json()
    refused = found.pop("refused")
    command = found.pop("worker_command")
    counts = {"enqueued": 2, "duplicate": 1, "known": 0, "invalid": 2}
    assert found == {"status": "queued", "run_id": "mine", **counts}
    assert [one["where"] for one in refused] == ["urls[2]", "tasks[1]"]
    assert "Did you mean 'book'?" in refused[1]["reason"]
    assert command.startswith("shoal work books --run mine --queue sqlite:///")
    assert command.endswith("--set rate=2/s")
    assert (await house.queue.run("mine")).settings.host_delay.total_seconds() == pytest.approx(0.5, abs=0.01)
    again = await operator.post("/api/runs/mine/enqueue", json={"urls": ["https://a.example.com/2"]})
    assert (again.status_code, again.json()["enqueued"]) == (200, 1)
    assert [action for _, _, action, _ in await noted(operator)] == ["enqueue", "start"]


async def test_what_other_runs_have_queued_is_left_out_and_can_be_forgotten(house, operator):
    body = {"scraper": "books", "urls": ["https://a.example.com/1"], "settings": {"dedup": "30d"}}
    found = [(await operator.post("/api/runs", json=body)).json() for _ in range(2)]
    assert [(one["enqueued"], one["known"]) for one in found] == [(1, 0), (0, 1)]
    async with house.client(READER) as reader:
        assert (await reader.post("/api/scrapers/books/forget")).status_code == 403
    assert (await operator.post("/api/scrapers/boks/forget")).status_code == 404
    answer = await operator.post("/api/scrapers/books/forget")
    assert (answer.status_code, answer.json()) == (200, {"scraper": "books", "forgotten": 1})
    assert (await operator.post("/api/runs", json=body)).json()["enqueued"] == 1
    details = (await operator.get("/api/actions")).json()["rows"]
    assert [row["details"] for row in details if row["action"] == "forget"] == [{"tasks": 1}]
    assert {"scraper": "books", "enqueued": 0, "known": 1} in [row["details"] for row in details]


async def test_a_run_is_added_to_by_whatever_name_the_project_has_for_its_scraper(house_with):
    async with house_with(project='[scrapers.shop]\nmodule = "books.py:books"\n') as house:
        await house.queue.start_run("books", run_id="mine")
        await house.queue.start_run("strange", run_id="other")
        async with house.client(OPERATOR) as operator:
            body = {"urls": ["https://a.example.com/"]}
            added = await operator.post("/api/runs/mine/enqueue", json=body)
            strange = await operator.post("/api/runs/other/enqueue", json=body)
    assert added.json()["worker_command"].startswith("shoal work shop --run mine")
    assert (strange.status_code, strange.json()["error"]) == (404, "UnknownScraper")


@pytest.mark.parametrize("name", ["books.py", "books.py:books", "./books.py", "../x/books.py", "os", "boks"])
async def test_only_scrapers_of_the_project_are_started_never_a_file(house, operator, name):
    for path, body in (
        ("/api/runs", {"scraper": name, "urls": ["https://a.example.com/"]}),
        ("/api/scrape", {"scraper": name, "url": "https://a.example.com/"}),
    ):
        answer = await operator.post(path, json=body)
        assert (answer.status_code, answer.json()["error"]) == (404, "UnknownScraper")
    assert await house.queue.runs() == []


@pytest.mark.parametrize(
    "settings",
    [
        {"warc": "/tmp/x.warc.gz"},
        {"replay": "/etc"},
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
async def test_a_setting_that_names_a_file_a_secret_or_a_private_network_is_refused(
    house, operator, settings
):
    body = {"scraper": "books", "urls": ["https://a.example.com/"], "settings": settings}
    answer = await operator.post("/api/runs", json=body)
    assert (answer.status_code, answer.json()["error"]) == (422, "InvalidSetting")
    assert f"settings.{next(iter(settings))}" in answer.json()["message"]
    assert await house.queue.runs() == []


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"scraper": "books"}, "urls or tasks"),
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
async def test_what_cannot_be_used_is_refused_by_name(house, operator, body, word):
    answer = await operator.post("/api/runs", json=body)
    assert answer.status_code == 422
    assert word in answer.json()["message"]
    assert await house.queue.runs() == []


async def test_a_body_must_be_json_and_say_so(operator):
    plain = {"Content-Type": "text/plain"}
    body = b'{"scraper": "books", "urls": ["https://a.example/"]}'
    assert (await operator.post("/api/runs", content=body, headers=plain)).status_code == 422
    json = {"Content-Type": "application/json"}
    answer = await operator.post("/api/runs", content=b"{", headers=json)
    assert (answer.status_code, answer.json()["error"]) == (422, "InvalidInput")
    assert "JSON" in answer.json()["message"]


async def test_a_page_is_not_scraped_while_nobody_listens(operator):
    answer = await operator.post("/api/scrape", json={"scraper": "books", "url": "https://a.example.com/"})
    assert (answer.status_code, answer.json()["error"]) == (503, "NobodyListens")


async def test_a_deed_asks_who_does_it_whoever_calls_it(house):
    run = await house.filled()
    with pytest.raises(Refused):
        await deeds.cancel(house.web.state.site, Guest("reader", "here"), run.id)
    assert (await house.queue.run(run.id)).state == "running"


async def test_the_worker_command_holds_no_secret(house):
    from shoal.fleet.jobs import project_job

    job = project_job(house.app.project, "postgresql://shoal:c4nary@db/shoal", "books")
    assert "c4nary" not in worker_command(job, "mine")


async def test_a_scraper_that_cannot_be_loaded_says_why_without_secrets(house, operator):
    (house.folder / "books.py").write_text("raise ValueError('https://u:c4nary@x.example/?token=c4nary')")
    (row,) = (await operator.get("/api/scrapers")).json()["rows"]
    assert "ValueError" in row["says"]
    answer = await operator.post("/api/runs", json={"scraper": "books", "urls": ["https://a.example/"]})
    assert answer.status_code == 422
    assert "c4nary" not in answer.text + row["says"]
    assert OPERATOR not in answer.text
