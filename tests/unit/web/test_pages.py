"""The pages: their content, the escaping of scraped data, and the rights of each role."""

import html
import re
import shlex
from datetime import timedelta

import pytest

from shoal.core.errors import QueueUnavailable
from shoal.core.http import Headers, Response
from shoal.core.model import INVALID_SEED, Bury, Retry, Task, TaskState
from shoal.web.pages import dead, fleet, lists
from shoal.web.views import paging
from shoal.web.views.format import duration, preview, safe_href
from shoal.web.views.render import environment
from shoal.worker.failures.pages import FailedPageStore
from tests.unit.web.tokens import HERE, OPERATOR, READER

RUN_PATHS = (
    *("", "/items", "/rejects", "/changes", "/dead", "/tasks", "/proxies", "/tor", "/tokens", "/cancel"),
    *("/replay?all=1", "/start-workers", "/stop-workers", "/enqueue"),
)
GLOBAL_PATHS = ("/", "/runs", "/scrapers", "/start", "/workers", "/hosts", "/actions")
BUTTONS = ("Pause", "Cancel", "Replay", "Drop", "Add URLs", "Delete")


def paths_of(run):
    """Return every page of a queue with one run."""
    return [*GLOBAL_PATHS, *(f"/runs/{run.id}{path}" for path in RUN_PATHS)]


async def test_every_page_shows_the_queue_and_its_status(dashboard):
    run = await dashboard.make_run()
    async with dashboard.client(OPERATOR) as client:
        for path in paths_of(run):
            response = await client.get(path)
            assert response.status_code == 200, (path, response.text)
            assert f"sqlite:///{dashboard.folder}/queue.db" in response.text
            assert "Queue connected:" in response.text


async def test_every_page_but_the_audit_log_shows_the_equivalent_command(dashboard):
    run = await dashboard.make_run()
    async with dashboard.client(OPERATOR) as client:
        for path in set(paths_of(run)) - {"/actions"}:
            assert "<code>shoal " in (await client.get(path)).text, path


async def test_no_page_has_inline_scripts_or_styles_or_uses_another_server(dashboard):
    run = await dashboard.make_run()
    async with dashboard.client(OPERATOR) as client:
        for path in paths_of(run):
            text = (await client.get(path)).text
            assert " style=" not in text and "<style" not in text, path
            assert " onclick=" not in text and "javascript:" not in text, path
            for part in text.split("<script")[1:]:
                assert part.startswith(' src="/static/'), (path, part[:80])
            for part in text.split("<link")[1:]:
                assert 'href="/static/' in part.partition(">")[0], (path, part[:80])


async def test_an_empty_queue_shows_what_to_type(dashboard):
    async with dashboard.client(OPERATOR) as client:
        text = (await client.get("/")).text
    assert "No runs yet" in text and "shoal run FILE" in text and "shoal demo" in text


async def test_a_run_is_stopped_when_its_last_worker_has_ended_in_pages_and_api(dashboard):
    run = await dashboard.make_run()
    for state in ("running", "stopped"):
        async with dashboard.client(OPERATOR) as client:
            for path in ("/", "/runs", f"/runs/{run.id}"):
                assert f'<span class="state {state}">' in (await client.get(path)).text, path
            (row,) = (await client.get("/api/runs")).json()["rows"]
            shown = (await client.get(f"/api/runs/{run.id}")).json()
        assert (row["state"], shown["state"]) == (state, state)
        await dashboard.queue.beat("machine-7-abcd", run_id=run.id, state="ended")
        dashboard.web.state.context.sampler.expire()


async def test_one_item_is_one_item_in_titles(dashboard):
    run = await dashboard.make_run(pages=1)
    async with dashboard.client(OPERATOR) as client:
        assert "<title>1 item ·" in (await client.get(f"/runs/{run.id}/items")).text
        assert "<title>1 dead letter ·" in (await client.get(f"/runs/{run.id}/dead")).text
        assert "1 remaining task will not" in (await client.get(f"/runs/{run.id}/cancel")).text


async def test_a_reader_sees_no_buttons_and_cannot_act(dashboard):
    run = await dashboard.make_run()
    async with dashboard.client(READER) as client:
        for path in ("", "/dead"):
            text = (await client.get(f"/runs/{run.id}{path}")).text
            assert not [word for word in BUTTONS if f">{word}" in text], path
        for path in ("pause", "resume", "cancel", "replay", "drop"):
            response = await client.post(f"/runs/{run.id}/{path}", content="all=1")
            assert response.status_code == 403, path
        assert (await client.post("/hosts", content="host=x.example&seconds=1")).status_code == 403
    assert (await dashboard.queue.run(run.id)).state == "running"
    assert (await dashboard.queue.stats(run.id)).dead == 1


async def test_pause_resume_and_cancel_redirect_to_the_run(dashboard):
    run = await dashboard.make_run()
    async with dashboard.client(OPERATOR) as client:
        for action, state in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")):
            response = await client.post(f"/runs/{run.id}/{action}")
            assert response.status_code == 303
            assert response.headers["location"].startswith(f"/runs/{run.id}?done=")
            assert (await dashboard.queue.run(run.id)).state == state
            assert f"state {state}" in (await client.get(f"/runs/{run.id}")).text  # visible immediately
        text = (await client.get("/actions")).text
    assert [text.count(f">{action}</td>") for action in ("pause", "resume", "cancel")] == [1, 1, 1]


async def test_cancel_asks_for_confirmation_and_shows_what_is_lost(dashboard):
    run = await dashboard.make_run()
    async with dashboard.client(OPERATOR) as client:
        text = (await client.get(f"/runs/{run.id}/cancel")).text
    assert "1 remaining task will" in text
    assert (await dashboard.queue.run(run.id)).state == "running"


async def test_the_confirmation_shows_how_many_letters_are_selected(dashboard):
    run = await make_dead_letters(dashboard, 4)
    async with dashboard.client(OPERATOR) as client:
        assert "Replay 4 dead letters?" in (await client.get(f"/runs/{run.id}/replay?all=1")).text
        two = (await client.get(f"/runs/{run.id}/drop", params={"all": 1, "error": "Timeout"})).text
        assert "Drop 2 dead letters?" in two
        assert 'name="error" value="Timeout"' in two
        assert (await dashboard.queue.stats(run.id)).dead == 4
        response = await client.post(f"/runs/{run.id}/drop", content="all=1&error=Timeout")
    assert response.headers["location"] == f"/runs/{run.id}/dead?done=dropped&count=2"
    assert (await dashboard.queue.stats(run.id)).dead == 2


async def test_only_selected_letters_are_replayed(dashboard):
    run = await make_dead_letters(dashboard, 3)
    first = (await anext(dashboard.queue.dead(run.id))).id
    async with dashboard.client(OPERATOR) as client:
        confirmation = (await client.get(f"/runs/{run.id}/replay", params={"id": first})).text
        assert "Replay 1 dead letter?" in confirmation
        await client.post(f"/runs/{run.id}/replay", data={"id": first})
    assert first not in [letter.id async for letter in dashboard.queue.dead(run.id)]
    assert (await dashboard.queue.stats(run.id)).dead == 2


async def test_letters_are_replayed_after_the_delay_that_is_typed(dashboard):
    run = await make_dead_letters(dashboard, 2)
    before = (await dashboard.queue.stats(run.id)).delayed
    async with dashboard.client(OPERATOR) as client:
        assert 'name="delay"' in (await client.get(f"/runs/{run.id}/replay?all=1")).text
        assert 'name="delay"' not in (await client.get(f"/runs/{run.id}/drop?all=1")).text
        wrong = await client.post(f"/runs/{run.id}/replay", data={"all": "1", "delay": "soon"})
        assert wrong.status_code == 422 and "delay must be a duration" in wrong.text
        done = await client.post(f"/runs/{run.id}/replay", data={"all": "1", "delay": " 10m "})
        shown = (await client.get(done.headers["location"])).text
    assert "Dead letters replayed: 2. They are tried when their delay is over." in shown
    assert (await dashboard.queue.stats(run.id)).delayed == before + 2


async def test_a_form_without_a_selection_replays_nothing(dashboard):
    run = await make_dead_letters(dashboard, 2)
    async with dashboard.client(OPERATOR) as client:
        assert "Nothing selected" in (await client.get(f"/runs/{run.id}/replay")).text
        assert (await client.post(f"/runs/{run.id}/replay", content="")).status_code == 422
        assert (await client.post(f"/runs/{run.id}/drop", content="step=listing")).status_code == 422
    assert (await dashboard.queue.stats(run.id)).dead == 2


async def test_a_letter_shows_its_attempts_as_a_timeline(dashboard):
    run = await dashboard.queue.start_run("books")
    await dashboard.queue.enqueue(run.id, [Task(url="https://shop.example/1", key="b1", payload={"page": 7})])
    for error in ("FetchTimeout: slow", "HttpStatus: 500"):
        (lease,) = (await dashboard.queue.claim("machine-1", run_id=run.id)).leases
        last = error.startswith("Http")
        await dashboard.queue.settle([Bury(lease, error) if last else Retry(lease, error, asked=False)])
    (letter,) = [one async for one in dashboard.queue.dead(run.id)]
    async with dashboard.client(OPERATOR) as client:
        text = (await client.get(f"/runs/{run.id}/dead/{letter.id}")).text
        assert text.count("<strong>Attempt ") == 2
        assert "FetchTimeout: slow" in text and "machine-1" in text and "&#34;page&#34;:7" in text
        assert (await client.get(f"/runs/{run.id}/dead/{'0' * 32}")).status_code == 404


async def test_a_letter_shows_its_traceback_and_its_page_as_text_in_a_sandbox(dashboard):
    run = await dashboard.queue.start_run("books")
    await dashboard.queue.enqueue(run.id, [Task(url="https://shop.example/1")])
    (lease,) = (await dashboard.queue.claim("machine-1", run_id=run.id)).leases
    trace = '  File "books.py", line 7, in <b>book</b>\nKeyError'
    await dashboard.queue.settle([Bury(lease, "KeyError: 'price'", traceback=trace)])
    path = f"/runs/{run.id}/dead/{lease.task_id}"
    async with dashboard.client(OPERATOR) as client:
        text = (await client.get(path)).text
        assert "line 7, in &lt;b&gt;book&lt;/b&gt;" in text
        assert f"{path}/page" not in text
        assert (await client.get(f"{path}/page")).status_code == 404
        assert (await client.get(f"/api{path}")).json()["page"] is None
        store = FailedPageStore(dashboard.queue, run.id, timedelta(days=1))
        body = "<script>alert('größe')</script>".encode("latin-1")
        fields = Headers([("content-type", "text/html; charset=latin-1")])
        await store.keep(
            lease, "KeyError", Response(url="https://a.b/", status=200, headers=fields, body=body)
        )
        await store.close()
        assert f'href="{path}/page"' in (await client.get(path)).text
        for page in (await client.get(f"{path}/page"), await client.get(f"/api{path}/page")):
            assert page.text == "<script>alert('größe')</script>"
            assert page.headers["content-type"] == "text/plain; charset=utf-8"
            assert page.headers["content-security-policy"].startswith("sandbox;")
            assert page.headers["x-content-type-options"] == "nosniff"
        found = (await client.get(f"/api{path}")).json()
        assert found["traceback"] == trace
        assert found["page"] == {"url": "https://a.b/", "status": 200, "bytes": len(body), "cut": False}


async def test_lists_are_paginated_and_miss_nothing(dashboard, monkeypatch):
    monkeypatch.setattr(lists, "ITEM_ROWS", 2)
    monkeypatch.setattr(dead, "ROWS", 2)
    run = await dashboard.make_run(pages=5)
    async with dashboard.client(OPERATOR) as client:
        for path, word in (("items", "https://shop"), ("rejects", "no title")):
            assert await _rows(client, f"/runs/{run.id}/{path}") == 5, word
        other = await make_dead_letters(dashboard, 5)
        assert await _rows(client, f"/runs/{other.id}/dead") == 5


async def test_tasks_and_hosts_are_paginated_with_their_filter(dashboard, monkeypatch):
    monkeypatch.setattr(lists, "ROWS", 2)
    monkeypatch.setattr(fleet, "ROWS", 2)
    run = await dashboard.make_run(pages=5)
    async with dashboard.client(OPERATOR) as client:
        assert await _rows(client, f"/runs/{run.id}/tasks") == 7
        assert await _rows(client, f"/runs/{run.id}/tasks?state=completed&step=listing") == 5
        assert await _rows(client, f"/hosts?run={run.id}") == 7
        assert (await client.get(f"/runs/{run.id}/tasks?after=nowhere")).status_code == 422
        for path in (f"/runs/{run.id}/items", f"/runs/{run.id}/rejects", f"/api/runs/{run.id}/items"):
            assert (await client.get(f"{path}?after=")).status_code == 200
            assert (await client.get(f"{path}?after=-1")).status_code == 422


async def test_a_search_for_part_of_a_url_shows_how_far_it_read(dashboard, monkeypatch):
    monkeypatch.setattr(paging, "MAX_SEARCHED", 3)
    run, other = await dashboard.make_run(pages=5), await make_dead_letters(dashboard, 5)
    async with dashboard.client(OPERATOR) as client:
        text = (await client.get(f"/runs/{run.id}/tasks?part=shop3")).text
        assert "Searched 3 tasks; the next page continues from there." in text
        assert await _rows(client, f"/runs/{run.id}/tasks?part=shop3") == 1
        letter = (await anext(dashboard.queue.dead(other.id))).task.url
        text = (await client.get(f"/runs/{other.id}/dead", params={"part": letter})).text
        assert text.count('name="id"') == 1 and "Searched 3 dead letters" in text
        assert "all matching" not in text  # a search is not a filter: it has not seen them all


async def test_the_export_links_return_the_items(dashboard):
    run = await dashboard.make_run(pages=3)
    async with dashboard.client(OPERATOR) as client:
        text = html.unescape((await client.get(f"/runs/{run.id}/items?step=listing")).text)
        links = re.findall(r'href="(/api/[^"]+)" download', text)
        responses = [await client.get(link) for link in links]
    assert [link.partition("format=")[2] for link in links] == ["jsonl&step=listing", "csv&step=listing"]
    assert [response.text.count("https://shop") for response in responses] == [3, 3]


async def test_a_task_is_found_by_its_exact_url_or_key_and_by_state(dashboard):
    run = await dashboard.make_run(pages=3)
    async with dashboard.client(OPERATOR) as client:

        async def found(**given):
            return (await client.get(f"/runs/{run.id}/tasks", params=given)).text.count("<tr>") - 1

        assert await found() == 5
        assert await found(key="https://shop0.example.com/0") == 1
        assert await found(key="https://nowhere.example/") == -1  # no table at all
        assert await found(state="dead") == 1
        assert (await client.get(f"/runs/{run.id}/tasks?state=lost")).status_code == 422
    assert set(TaskState) == {"pending", "delayed", "leased", "completed", "dead", "expired", "dropped"}


async def test_a_host_is_paused_slowed_and_resumed(dashboard):
    await dashboard.make_run()
    host = "shop0.example.com"
    async with dashboard.client(OPERATOR) as client:
        await client.post("/hosts", data={"host": host, "seconds": "90", "action": "pause"})
        await client.post("/hosts", data={"host": host, "seconds": "2.5", "action": "slow"})
        status = await _host(dashboard, host)
        assert status.paused_for > timedelta(seconds=80) and status.delay == timedelta(seconds=2.5)
        assert "1 min" in (await client.get("/hosts")).text
        await client.post("/hosts", data={"host": host, "seconds": "0", "action": "pause"})
        assert not (await _host(dashboard, host)).paused_for
        month = 30 * 86_400
        assert f'max="{month}"' in (await client.get("/hosts")).text
        paused = await client.post("/hosts", data={"host": host, "seconds": str(month)})
        assert paused.status_code == 303
        for wrong in ("", "nan", "-1", "1e9", "soon", str(month + 1)):
            response = await client.post("/hosts", data={"host": host, "seconds": wrong})
            assert response.status_code == 422, wrong


async def test_a_command_to_copy_is_quoted(dashboard):
    run = await dashboard.make_run()
    text = "x'; rm -rf ~; '"
    async with dashboard.client(OPERATOR) as client:
        for path in (f"/runs/{run.id}/dead", f"/runs/{run.id}/replay", f"/runs/{run.id}/tasks"):
            given = {"error": text, "step": text, "key": text, "all": 1}
            page = html.unescape((await client.get(path, params=given)).text)
            command = re.search('data-copy="(.*?)" hidden', page)[1]
            assert text in shlex.split(command) and "rm" not in shlex.split(command), command


async def test_text_from_the_url_cannot_get_into_a_notice(dashboard):
    async with dashboard.client(OPERATOR) as client:
        text = (await client.get("/", params={"done": "replayed", "count": "call 555"})).text
        assert "call 555" not in text and "Dead letters replayed: some" in text
        assert 'class="notice"' not in (await client.get("/?done=You+won")).text


async def test_an_unavailable_queue_is_shown_on_the_overview(dashboard, monkeypatch):
    await dashboard.make_run()

    async def unavailable():
        raise QueueUnavailable("sqlite:///queue.db", "it is locked")

    sampler = dashboard.web.state.context.sampler
    await sampler.fresh_sample()
    monkeypatch.setattr(sampler, "_interval", timedelta(0))
    async with dashboard.client(OPERATOR) as client:
        with monkeypatch.context() as patch:
            patch.setattr(dashboard.queue, "runs", unavailable)
            text = (await client.get("/")).text
            assert "cannot be reached: it is locked" in text and "Queue unavailable:" in text
            assert "books" in text  # the last known state stays
            assert (await client.get("/runs")).status_code == 503
        assert "cannot be reached" not in (await client.get("/")).text


async def test_everything_works_under_a_path_prefix(dashboard):
    run = await dashboard.make_run()
    from fastapi import FastAPI

    outer = FastAPI()
    outer.mount("/shoal", dashboard.web)
    dashboard.web = outer
    async with dashboard.client(OPERATOR) as client:
        text = (await client.get(f"/shoal/runs/{run.id}")).text
        assert f'sse-connect="/shoal/live/runs/{run.id}"' in text
        links = [part.partition('"')[0] for part in text.split('href="')[1:]]
        assert all(link.startswith(("/shoal/", "#")) for link in links), links
        response = await client.post(f"/shoal/runs/{run.id}/pause")
        assert response.headers["location"] == f"/shoal/runs/{run.id}?done=paused"


@pytest.mark.parametrize(
    "url",
    ["javascript:alert(1)", "data:text/html,x", "JaVaScRiPt:x", "//evil.example", "file:///etc/passwd",
     "https://me:secret@shop.example/", "http://", "http://[", " https://a.example", "http://a\n.example", 7],
)  # fmt: skip
def test_only_http_links_are_safe(url):
    assert safe_href(url) is None


def test_long_values_are_shortened_and_very_long_ones_cut():
    assert preview("short")["full"] is None
    assert preview("x" * 200)["full"] == "x" * 200
    cut = preview("x" * 10_000)
    assert len(cut["full"]) == 4_000 and cut["more"] == 6_000
    assert preview({"a": [1, None]})["brief"] == '{"a":[1,null]}'


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "\u2013"), (0.034, "0.034 s"), (3, "3 s"), (130, "2 min 10 s"), (14_700, "4 h 5 min"),
     (timedelta(days=3, hours=2), "3 d 2 h")],
)  # fmt: skip
def test_durations_have_two_units(value, words):
    assert duration(value) == words


def test_templates_escape_whatever_their_file_name():
    assert environment().autoescape is True
    for name in environment().list_templates():
        source = environment().loader.get_source(environment(), name)[0]
        assert not re.search(r"\|\s*safe\b|autoescape|Markup", source), name


async def make_dead_letters(dashboard, count):
    """Return a run with `count` dead letters, every other one a timeout."""
    run = await dashboard.queue.start_run("books")
    urls = [f"https://dead{n}.example.com/" for n in range(count)]
    await dashboard.queue.enqueue(run.id, [Task(url=url, step="listing") for url in urls])
    leases = (await dashboard.queue.claim("machine-1", run_id=run.id, limit=count)).leases
    errors = ["FetchTimeout: slow", "HttpStatus: 404"]
    await dashboard.queue.settle([Bury(lease, errors[n % 2]) for n, lease in enumerate(leases)])
    return run


async def _rows(client, path):
    """Return the number of rows on all pages of a list."""
    count = 0
    while path:
        text = (await client.get(path)).text
        count += max(0, text.count("<tr>") - 1)  # without rows there is no table
        _, _, rest = text.partition('rel="next" href="')
        path = rest.partition('"')[0].replace("&amp;", "&").removeprefix(HERE)
    return count


async def _host(dashboard, name):
    return next(iter([host async for host in dashboard.queue.hosts() if host.host == name]))


async def test_an_invalid_seed_is_listed_with_its_line_and_text(dashboard):
    run = await dashboard.queue.start_run("books")
    seed = {"where": "seeds.txt:3", "text": "<nonsense>", "reason": "it has no scheme"}
    await dashboard.queue.enqueue(run.id, [Task(step=INVALID_SEED, payload=seed)])
    (lease,) = (await dashboard.queue.claim("w", run_id=run.id)).leases
    await dashboard.queue.settle([Bury(lease, "it has no scheme")])
    async with dashboard.client(READER) as client:
        for path in (f"/runs/{run.id}/dead", "/dead"):
            assert ">seeds.txt:3 &lt;nonsense&gt;</a>" in (await client.get(path)).text
