"""Editing dead letters and deleting old runs, through the API and the pages."""

from html import unescape

import pytest

from shoal.core.model import Bury, Task
from tests.unit.web.tokens import HERE, OPERATOR, READER


@pytest.fixture
async def operator(dashboard):
    async with dashboard.client(OPERATOR, address="10.1.2.3") as client:
        yield client


@pytest.fixture
async def run(dashboard):
    return await dashboard.make_run()


async def dead(dashboard, run):
    return [letter async for letter in dashboard.queue.dead(run.id)]


async def test_a_letter_is_changed_and_returned_with_its_new_id(dashboard, operator, run):
    (letter,) = await dead(dashboard, run)
    change = {
        "url": "https://new.example/1",
        "step": "book",
        "set_payload": {"a": 1},
        "headers": {"X-A": "1"},
    }
    response = await operator.patch(f"/api/runs/{run.id}/dead/{letter.id}", json=change)
    found = response.json()
    assert (response.status_code, found["url"], found["step"]) == (200, "https://new.example/1", "book")
    assert found["payload"] == {"a": 1}
    assert found["request"] == "GET, with x-a"
    assert (found["history"][-1]["attempt"], found["history"][-1]["worker_id"]) == (0, "10.1.2.3")
    assert [one.id for one in await dead(dashboard, run)] == [found["id"]] != [letter.id]
    log = (await operator.get("/api/actions")).json()["rows"]
    assert [(row["action"], row["target"]) for row in log] == [("edit", run.id)]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({}, 422),
        ({"priority": 10}, 422),
        ({"colour": 1}, 422),
        ({"url": "nonsense"}, 422),
        ({"step": "bok"}, 422),
        ({"url_replace": ["a"]}, 422),
        ({"headers": {"a": "1\r\nb: 2"}}, 422),
    ],
)
async def test_a_wrong_change_is_refused_and_changes_nothing(dashboard, operator, run, change, status):
    before = await dead(dashboard, run)
    response = await operator.patch(f"/api/runs/{run.id}/dead/{before[0].id}", json=change)
    assert response.status_code == status, response.text
    assert await dead(dashboard, run) == before


async def test_a_task_that_the_run_has_is_a_conflict(dashboard, operator, run):
    before = await dead(dashboard, run)
    taken = await anext(item.url async for item in dashboard.queue.items(run.id))
    response = await operator.patch(f"/api/runs/{run.id}/dead/{before[0].id}", json={"url": taken})
    assert (response.status_code, response.json()["error"]) == (409, "RunConflict")
    assert await dead(dashboard, run) == before


async def test_letters_are_changed_by_filter_after_a_dry_run(dashboard, operator, run):
    body = {
        "where": {"error": "no price"},
        "change": {"url_replace": ["https://shop", "http://market"]},
        "dry_run": True,
    }
    before = await dead(dashboard, run)
    path = f"/api/runs/{run.id}/dead/edit"
    first = (await operator.post(path, json=body)).json()
    assert await dead(dashboard, run) == before
    second = (await operator.post(path, json={**body, "dry_run": False})).json()
    assert (first["edited"], second["edited"], first["dry_run"]) == (1, 1, True)
    (letter,) = await dead(dashboard, run)
    assert letter.task.url.startswith("http://market")
    assert second["differences"][0]["new_id"] == letter.id


async def test_a_reader_changes_nothing(dashboard, run):
    (letter,) = await dead(dashboard, run)
    async with dashboard.client(READER) as reader:
        for response in (
            await reader.patch(f"/api/runs/{run.id}/dead/{letter.id}", json={"priority": 1}),
            await reader.post(f"/api/runs/{run.id}/dead/edit", json={"where": {}, "change": {"priority": 1}}),
            await reader.post("/api/purge", json={"older": "1d"}),
            await reader.get("/purge?days=1"),
        ):
            assert response.status_code == 403
        assert "Edit</h2>" not in (await reader.get(f"/runs/{run.id}/dead/{letter.id}")).text


async def test_the_form_of_a_letter_shows_it_and_changes_what_differs(dashboard, operator, run):
    await dashboard.queue.drop(run.id)
    await dashboard.queue.enqueue(
        run.id, [Task(url="https://x.example/", step="listing", payload={"a": "</textarea><script>"})]
    )
    for lease in (await dashboard.queue.claim("w", run_id=run.id)).leases:
        await dashboard.queue.settle([Bury(lease, "gone")])
    letter = next(one for one in await dead(dashboard, run) if one.task.payload)
    assert "&lt;/textarea&gt;" in (await operator.get(f"/runs/{run.id}/dead")).text
    path = f"/runs/{run.id}/dead/{letter.id}"
    page = (await operator.get(path)).text
    assert "</textarea><script>" not in page
    assert '"a": "</textarea><script>"' in unescape(page)
    form = {
        "url": "https://y.example/",
        "step": "listing",
        "priority": "0",
        "payload": '{"a": 2}',
        "headers": "Accept: x\nx-y:",
    }
    done = await operator.post(f"{path}/edit", data=form, headers={"Origin": HERE})
    edited = next(one for one in await dead(dashboard, run) if one.task.payload)
    assert done.headers["location"].endswith(f"/runs/{run.id}/dead/{edited.id}?done=edited")
    assert (edited.task.url, edited.task.payload) == ("https://y.example/", {"a": 2})
    assert edited.task.request.headers == {"accept": "x"}
    assert "<strong>Edit</strong>" in (await operator.get(f"/runs/{run.id}/dead/{edited.id}")).text
    same = form | {"headers": "", "method": "GET", "body": ""}
    await operator.post(f"/runs/{run.id}/dead/{edited.id}/edit", data=same, headers={"Origin": HERE})
    assert edited in await dead(dashboard, run)


async def test_the_form_of_a_letter_changes_its_method_and_body(dashboard, operator, run):
    async def edit(**form):
        letter = (await dead(dashboard, run))[0]
        path = f"/runs/{run.id}/dead/{letter.id}/edit"
        assert (await operator.post(path, data=form, headers={"Origin": HERE})).status_code == 303
        return next(one.task.request for one in await dead(dashboard, run) if one.task.url == letter.task.url)

    sent = await edit(method="", body="s3cret\r\nline")
    assert (sent.method, sent.post) == ("POST", b"s3cret\nline")
    letter = next(one for one in await dead(dashboard, run) if one.task.request)
    page = (await operator.get(f"/runs/{run.id}/dead/{letter.id}")).text
    assert 'name="method" value="POST"' in page and "11 bytes now" in page and "s3cret" not in page
    assert (await edit(method="put", body="")).method == "PUT"
    assert (await edit(method="GET", body="")) is None


@pytest.mark.parametrize(
    "wrong", [{"payload": "[1]"}, {"payload": "{"}, {"priority": "x"}, {"headers": "s3cret"}]
)
async def test_a_wrong_form_is_refused_with_the_reason(dashboard, operator, run, wrong):
    before = await dead(dashboard, run)
    path = f"/runs/{run.id}/dead/{before[0].id}/edit"
    response = await operator.post(path, data=wrong, headers={"Origin": HERE})
    assert response.status_code == 422
    says = "priority must be a whole number" if "priority" in wrong else "Nothing was changed"
    assert says in unescape(response.text)
    assert "s3cret" not in response.text
    assert await dead(dashboard, run) == before


async def test_a_text_is_replaced_in_the_urls_of_all_that_match_after_a_confirmation(
    dashboard, operator, run
):
    base = f"/runs/{run.id}"
    assert "Replace in the URLs" in (await operator.get(f"{base}/dead?error=price")).text
    query = "old=https%3A%2F%2Fshop&new=http%3A%2F%2Fmarket"
    page = unescape((await operator.get(f"{base}/edit?error=price&{query}")).text)
    assert "Edit 1 dead letter?" in page and "For example: url https://shop" in page
    assert f"shoal dead edit {run.id} --url-replace https://shop http://market --error price" in page
    assert "No URL would change" in (await operator.get(f"{base}/edit?old=nowhere")).text
    assert (await operator.get(f"{base}/edit")).status_code == 422
    form = {"old": "https://shop", "new": "http://market", "error": "other"}
    for error, count in (("other", 0), ("price", 1)):
        done = await operator.post(f"{base}/edit", data=form | {"error": error}, headers={"Origin": HERE})
        assert done.headers["location"].endswith(f"done=edited+letters&count={count}")
    (letter,) = await dead(dashboard, run)
    assert letter.task.url.startswith("http://market")


async def cancelled_runs(dashboard, *ids):
    for run_id in ids:
        await dashboard.queue.start_run("books", run_id=run_id)
        await dashboard.queue.cancel(run_id)


async def test_old_runs_are_deleted_through_the_api(dashboard, operator):
    await cancelled_runs(dashboard, "a", "b", "c")
    first = (await operator.post("/api/purge", json={"keep": 1, "dry_run": True})).json()
    assert (first["purged"], len(await dashboard.queue.runs())) == (2, 3)
    second = (await operator.post("/api/purge", json={"keep": 1, "scraper": "books"})).json()
    assert ([row["run_id"] for row in second["runs"]], second["dry_run"]) == (["a", "b"], False)
    assert [run.id for run in await dashboard.queue.runs()] == ["c"]
    for wrong in ({}, {"older": "soon"}, {"keep": -1}, {"scraper": "books"}):
        assert (await operator.post("/api/purge", json=wrong)).status_code == 422


async def test_old_runs_are_deleted_through_the_page_after_a_confirmation(dashboard, operator):
    await cancelled_runs(dashboard, "a", "b")
    assert "Delete old runs" in (await operator.get("/runs")).text
    page = unescape((await operator.get("/purge?days=&keep=1&scraper=")).text)
    assert "Delete 1 run?" in page and "shoal purge --keep 1" in page
    assert "No run is that old" in (await operator.get("/purge?days=30&keep=0")).text
    assert (await operator.get("/purge?days=x")).status_code == 422
    form = {"days": "", "keep": "1", "scraper": ""}
    done = await operator.post("/purge", data=form, headers={"Origin": HERE})
    assert done.headers["location"].endswith("/runs?done=purged&count=1")
    assert [run.id for run in await dashboard.queue.runs()] == ["b"]


async def test_a_run_is_deleted_through_its_page_after_a_confirmation(dashboard, operator, run):
    assert f'href="/runs/{run.id}/purge"' in (await operator.get(f"/runs/{run.id}")).text
    refused = await operator.get(f"/runs/{run.id}/purge")
    assert refused.status_code == 409 and "1 worker runs on it" in refused.text
    await dashboard.queue.cancel(run.id)
    page = unescape((await operator.get(f"/runs/{run.id}/purge")).text)
    assert "Delete this run of books?" in page and "With 5 tasks, 3 items and 1 dead letter" in page
    assert f"shoal purge {run.id}" in page
    done = await operator.post(f"/runs/{run.id}/purge", headers={"Origin": HERE})
    assert done.headers["location"] == "/runs?done=purged&count=1"
    assert await dashboard.queue.runs() == []
    assert (await operator.get(f"/runs/{run.id}")).status_code == 404


async def test_what_runs_with_dedup_have_queued_is_forgotten_through_the_page(dashboard_with):
    project = '[scrapers.books]\nmodule = "books.py:books"\ndedup = "30d"\n'
    async with dashboard_with(project=project) as dashboard, dashboard.client(OPERATOR) as client:
        await dashboard.app.start("books", urls=["https://a.example/1", "https://a.example/2"], workers=0)
        assert 'href="/scrapers/books/forget"' in (await client.get("/scrapers")).text
        page = (await client.get("/scrapers/books/forget")).text
        assert "shoal forget books" in page and "queues all of it again" in page
        done = await client.post("/scrapers/books/forget")
        assert done.headers["location"] == "/scrapers?done=forgotten&count=2"
        assert (await client.get("/scrapers/nothing/forget")).status_code == 404
        async with dashboard.client(READER) as reader:
            assert "/forget" not in (await reader.get("/scrapers")).text
            assert (await reader.post("/scrapers/books/forget")).status_code == 403


async def test_the_size_of_the_store_is_in_the_api_and_on_the_overview(operator, run):
    for path in ("/api/overview", f"/api/runs/{run.id}"):
        store = (await operator.get(path)).json()["store"]
        assert store["bytes"] > 4096 and "database file" in store["text"]
    assert "<dt>Store</dt>" in (await operator.get("/")).text


async def test_the_end_of_a_letters_id_names_it_in_the_api_and_on_the_pages(dashboard, operator, run):
    (letter,) = await dead(dashboard, run)
    short = letter.id[-6:]
    assert (await operator.get(f"/api/runs/{run.id}/dead/{short}")).json()["id"] == letter.id
    assert letter.id in (await operator.get(f"/runs/{run.id}/dead/{short}")).text
    assert (await operator.get(f"/api/runs/{run.id}/dead/{letter.id[:3]}")).status_code == 422
    assert (await operator.get(f"/api/runs/{run.id}/dead/{'0' * 6}")).status_code == 404
    changed = await operator.patch(f"/api/runs/{run.id}/dead/{short}", json={"priority": 2})
    assert (changed.status_code, changed.json()["priority"]) == (200, 2)
    edit = {"ids": [short], "change": {"priority": 3}}
    assert (await operator.post(f"/api/runs/{run.id}/dead/edit", json=edit)).json()["edited"] == 1
    missing = await operator.post(f"/api/runs/{run.id}/dead/drop", json={"ids": ["0" * 6]})
    assert missing.status_code == 404 and len(await dead(dashboard, run)) == 1
    replayed = await operator.post(f"/api/runs/{run.id}/dead/replay", json={"ids": [short]})
    assert replayed.json()["replayed"] == 1
