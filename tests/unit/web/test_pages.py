"""The pages: what is on each, that nothing scraped is markup, and that only an operator acts."""

import html
import re
import shlex
from datetime import timedelta

import pytest

from shoal.core.errors import QueueUnavailable
from shoal.core.model import Bury, Retry, Task, TaskState
from shoal.web import paging
from shoal.web.frame import environment
from shoal.web.pages import dead, fleet, records, tasks
from shoal.web.shown import cells_of, columns_of, folded, safe_href, seconds
from tests.unit.web.doors import HERE, OPERATOR, READER

OF_A_RUN = ("", "/items", "/rejects", "/dead", "/tasks", "/proxies", "/cancel", "/replay?all=1")
OF_ALL = ("/", "/runs", "/workers", "/hosts", "/actions")
BUTTONS = ("Pause", "Cancel", "Replay", "Drop")


def paths_of(run):
    """Return every page of a queue with one run."""
    return [*OF_ALL, *(f"/runs/{run.id}{path}" for path in OF_A_RUN)]


async def test_every_page_says_which_queue_it_is_and_that_it_answers(house):
    run = await house.filled()
    async with house.client(OPERATOR) as client:
        for path in paths_of(run):
            answer = await client.get(path)
            assert answer.status_code == 200, (path, answer.text)
            assert f"sqlite:///{house.folder}/queue.db" in answer.text
            assert "The queue answers:" in answer.text


async def test_every_page_but_the_actions_has_the_command_that_does_the_same(house):
    run = await house.filled()
    async with house.client(OPERATOR) as client:
        for path in set(paths_of(run)) - {"/actions"}:
            assert "<code>shoal " in (await client.get(path)).text, path


async def test_no_page_has_a_script_or_a_style_of_its_own_or_asks_another_server(house):
    run = await house.filled()
    async with house.client(OPERATOR) as client:
        for path in paths_of(run):
            text = (await client.get(path)).text
            assert " style=" not in text and "<style" not in text, path
            assert " onclick=" not in text and "javascript:" not in text, path
            for part in text.split("<script")[1:]:
                assert part.startswith(' src="/static/'), (path, part[:80])
            for part in text.split("<link")[1:]:
                assert 'href="/static/' in part.partition(">")[0], (path, part[:80])


async def test_an_empty_queue_says_what_to_type(house):
    async with house.client(OPERATOR) as client:
        text = (await client.get("/")).text
    assert "No runs yet" in text and "shoal run FILE" in text and "shoal demo" in text


async def test_titles_say_what_is_going_on(house):
    run = await house.filled(pages=3)
    async with house.client(OPERATOR) as client:
        assert "<title>3 of 5 · books · Shoal</title>" in (await client.get(f"/runs/{run.id}")).text
        assert "<title>3 items · books · Shoal</title>" in (await client.get(f"/runs/{run.id}/items")).text
        assert "1 left · Shoal</title>" in (await client.get("/")).text


async def test_a_reader_sees_no_buttons_and_is_refused_their_deeds(house):
    run = await house.filled()
    async with house.client(READER) as client:
        for path in ("", "/dead"):
            text = (await client.get(f"/runs/{run.id}{path}")).text
            assert not [word for word in BUTTONS if f">{word}" in text], path
        for path in ("pause", "resume", "cancel", "replay", "drop"):
            answer = await client.post(f"/runs/{run.id}/{path}", content="all=1")
            assert answer.status_code == 403, path
        assert (await client.post("/hosts", content="host=x.example&seconds=1")).status_code == 403
    assert (await house.queue.run(run.id)).state == "running"
    assert (await house.queue.stats(run.id)).dead == 1


async def test_pause_resume_and_cancel_do_it_and_come_back_to_the_run(house):
    run = await house.filled()
    async with house.client(OPERATOR) as client:
        for deed, state in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")):
            answer = await client.post(f"/runs/{run.id}/{deed}")
            assert answer.status_code == 303
            assert answer.headers["location"].startswith(f"/runs/{run.id}?done=")
            assert (await house.queue.run(run.id)).state == state
            assert f"state {state}" in (await client.get(f"/runs/{run.id}")).text  # and is seen at once
        text = (await client.get("/actions")).text
    assert [text.count(f"<td>{deed}</td>") for deed in ("pause", "resume", "cancel")] == [1, 1, 1]


async def test_cancelling_is_asked_first_and_says_what_is_lost(house):
    run = await house.filled()
    async with house.client(OPERATOR) as client:
        text = (await client.get(f"/runs/{run.id}/cancel")).text
    assert "1 tasks that are left" in text
    assert (await house.queue.run(run.id)).state == "running"


async def test_how_many_letters_are_meant_is_said_before_it_is_done(house):
    run = await with_letters(house, 4)
    async with house.client(OPERATOR) as client:
        assert "Replay 4 dead letters?" in (await client.get(f"/runs/{run.id}/replay?all=1")).text
        two = (await client.get(f"/runs/{run.id}/drop", params={"all": 1, "error": "Timeout"})).text
        assert "Drop 2 dead letters?" in two
        assert 'name="error" value="Timeout"' in two
        assert (await house.queue.stats(run.id)).dead == 4
        answer = await client.post(f"/runs/{run.id}/drop", content="all=1&error=Timeout")
    assert answer.headers["location"] == f"/runs/{run.id}/dead?done=dropped&count=2"
    assert (await house.queue.stats(run.id)).dead == 2


async def test_ticked_letters_are_replayed_and_no_others(house):
    run = await with_letters(house, 3)
    first = (await anext(house.queue.dead(run.id))).id
    async with house.client(OPERATOR) as client:
        asked = (await client.get(f"/runs/{run.id}/replay", params={"id": first})).text
        assert "Replay 1 dead letter?" in asked
        await client.post(f"/runs/{run.id}/replay", data={"id": first})
    assert first not in [letter.id async for letter in house.queue.dead(run.id)]
    assert (await house.queue.stats(run.id)).dead == 2


async def test_a_form_that_names_no_letter_replays_none(house):
    run = await with_letters(house, 2)
    async with house.client(OPERATOR) as client:
        assert "None is ticked" in (await client.get(f"/runs/{run.id}/replay")).text
        assert (await client.post(f"/runs/{run.id}/replay", content="")).status_code == 422
        assert (await client.post(f"/runs/{run.id}/drop", content="step=listing")).status_code == 422
    assert (await house.queue.stats(run.id)).dead == 2


async def test_a_letter_shows_its_attempts_as_a_timeline(house):
    run = await house.queue.start_run("books")
    await house.queue.enqueue(run.id, [Task(url="https://shop.example/1", key="b1", payload={"page": 7})])
    for error in ("FetchTimeout: slow", "HttpStatus: 500"):
        (lease,) = (await house.queue.claim("machine-1", run_id=run.id)).leases
        last = error.startswith("Http")
        await house.queue.settle([Bury(lease, error) if last else Retry(lease, error, asked=False)])
    (letter,) = [one async for one in house.queue.dead(run.id)]
    async with house.client(OPERATOR) as client:
        text = (await client.get(f"/runs/{run.id}/dead/{letter.id}")).text
        assert text.count("<strong>Attempt ") == 2
        assert "FetchTimeout: slow" in text and "machine-1" in text and "&#34;page&#34;:7" in text
        assert (await client.get(f"/runs/{run.id}/dead/{'0' * 32}")).status_code == 404


async def test_lists_come_a_page_at_a_time_and_miss_nothing(house, monkeypatch):
    monkeypatch.setattr(records, "ROWS", 2)
    monkeypatch.setattr(dead, "ROWS", 2)
    run = await house.filled(pages=5)
    async with house.client(OPERATOR) as client:
        for path, word in (("items", "https://shop"), ("rejects", "no title")):
            assert await _rows(client, f"/runs/{run.id}/{path}") == 5, word
        other = await with_letters(house, 5)
        assert await _rows(client, f"/runs/{other.id}/dead") == 5


async def test_tasks_and_hosts_come_a_page_at_a_time_with_their_filter(house, monkeypatch):
    monkeypatch.setattr(tasks, "ROWS", 2)
    monkeypatch.setattr(fleet, "ROWS", 2)
    run = await house.filled(pages=5)
    async with house.client(OPERATOR) as client:
        assert await _rows(client, f"/runs/{run.id}/tasks") == 7
        assert await _rows(client, f"/runs/{run.id}/tasks?state=completed&step=listing") == 5
        assert await _rows(client, f"/hosts?run={run.id}") == 7
        assert (await client.get(f"/runs/{run.id}/tasks?after=nowhere")).status_code == 422


async def test_a_part_of_a_url_is_searched_for_and_the_page_says_how_far(house, monkeypatch):
    monkeypatch.setattr(paging, "SEARCHED", 3)
    run, other = await house.filled(pages=5), await with_letters(house, 5)
    async with house.client(OPERATOR) as client:
        text = (await client.get(f"/runs/{run.id}/tasks?part=shop3")).text
        assert "Searched 3 tasks; the next page goes on behind them." in text
        assert await _rows(client, f"/runs/{run.id}/tasks?part=shop3") == 1
        letter = (await anext(house.queue.dead(other.id))).task.url
        text = (await client.get(f"/runs/{other.id}/dead", params={"part": letter})).text
        assert text.count('name="id"') == 1 and "Searched 3 dead letters" in text
        assert "all that match" not in text  # a search is no filter: it has not seen them all


async def test_the_export_links_of_the_items_lead_to_the_items(house):
    run = await house.filled(pages=3)
    async with house.client(OPERATOR) as client:
        text = html.unescape((await client.get(f"/runs/{run.id}/items?step=listing")).text)
        links = re.findall(r'href="(/api/[^"]+)" download', text)
        answers = [await client.get(link) for link in links]
    assert [link.partition("format=")[2] for link in links] == ["jsonl&step=listing", "csv&step=listing"]
    assert [answer.text.count("https://shop") for answer in answers] == [3, 3]


async def test_a_task_is_found_by_its_whole_url_or_key_and_by_state(house):
    run = await house.filled(pages=3)
    async with house.client(OPERATOR) as client:

        async def found(**given):
            return (await client.get(f"/runs/{run.id}/tasks", params=given)).text.count("<tr>") - 1

        assert await found() == 5
        assert await found(key="https://shop0.example.com/0") == 1
        assert await found(key="https://nowhere.example/") == -1  # no table at all
        assert await found(state="dead") == 1
        assert (await client.get(f"/runs/{run.id}/tasks?state=lost")).status_code == 422
    assert set(TaskState) == {"pending", "delayed", "leased", "completed", "dead", "expired", "dropped"}


async def test_a_host_is_paused_slowed_and_let_go(house):
    await house.filled()
    host = "shop0.example.com"
    async with house.client(OPERATOR) as client:
        await client.post("/hosts", data={"host": host, "seconds": "90", "deed": "pause"})
        await client.post("/hosts", data={"host": host, "seconds": "2.5", "deed": "slow"})
        status = await _host(house, host)
        assert status.paused_for > timedelta(seconds=80) and status.delay == timedelta(seconds=2.5)
        assert "1 min" in (await client.get("/hosts")).text
        await client.post("/hosts", data={"host": host, "seconds": "0", "deed": "pause"})
        assert not (await _host(house, host)).paused_for
        for wrong in ("", "nan", "-1", "1e9", "soon"):
            answer = await client.post("/hosts", data={"host": host, "seconds": wrong})
            assert answer.status_code == 422, wrong


async def test_a_command_to_be_copied_cannot_do_more_than_it_says(house):
    run = await house.filled()
    text = "x'; rm -rf ~; '"
    async with house.client(OPERATOR) as client:
        for path in (f"/runs/{run.id}/dead", f"/runs/{run.id}/replay", f"/runs/{run.id}/tasks"):
            given = {"error": text, "step": text, "key": text, "all": 1}
            page = html.unescape((await client.get(path, params=given)).text)
            command = re.search('data-copy="(.*?)" hidden', page)[1]
            assert text in shlex.split(command) and "rm" not in shlex.split(command), command


async def test_words_in_the_url_cannot_be_put_into_a_notice(house):
    async with house.client(OPERATOR) as client:
        text = (await client.get("/", params={"done": "replayed", "count": "call 555"})).text
        assert "call 555" not in text and "Back to pending: some" in text
        assert 'class="notice"' not in (await client.get("/?done=You+won")).text


async def test_a_queue_that_is_away_is_told_on_the_overview(house, monkeypatch):
    await house.filled()

    async def away():
        raise QueueUnavailable("sqlite:///queue.db", "it is locked")

    sampler = house.web.state.site.sampler
    await sampler.fresh()
    monkeypatch.setattr(sampler, "_every", timedelta(0))
    async with house.client(OPERATOR) as client:
        with monkeypatch.context() as patch:
            patch.setattr(house.queue, "runs", away)
            text = (await client.get("/")).text
            assert "cannot be reached: it is locked" in text and "The queue does not answer:" in text
            assert "books" in text  # what was known stays
            assert (await client.get("/runs")).status_code == 503
        assert "cannot be reached" not in (await client.get("/")).text


async def test_everything_works_under_a_path_of_a_proxy_in_front(house):
    run = await house.filled()
    from fastapi import FastAPI

    outer = FastAPI()
    outer.mount("/shoal", house.web)
    house.web = outer
    async with house.client(OPERATOR) as client:
        text = (await client.get(f"/shoal/runs/{run.id}")).text
        assert f'sse-connect="/shoal/live/runs/{run.id}"' in text
        links = [part.partition('"')[0] for part in text.split('href="')[1:]]
        assert all(link.startswith(("/shoal/", "#")) for link in links), links
        answer = await client.post(f"/shoal/runs/{run.id}/pause")
        assert answer.headers["location"] == f"/shoal/runs/{run.id}?done=paused"


@pytest.mark.parametrize(
    "url",
    ["javascript:alert(1)", "data:text/html,x", "JaVaScRiPt:x", "//evil.example", "file:///etc/passwd",
     "https://me:secret@shop.example/", "http://", "http://[", " https://a.example", "http://a\n.example", 7],
)  # fmt: skip
def test_a_scraped_link_leads_nowhere_but_to_http(url):
    assert safe_href(url) is None


def test_a_scraped_link_to_a_page_is_kept_as_it_is():
    assert safe_href("https://shop.example/a?b=c#d") == "https://shop.example/a?b=c#d"


def test_long_values_are_folded_and_endless_ones_cut():
    assert folded("short")["full"] is None
    assert folded("x" * 200)["full"] == "x" * 200
    cut = folded("x" * 10_000)
    assert len(cut["full"]) == 4_000 and cut["more"] == 6_000
    assert folded({"a": [1, None]})["brief"] == '{"a":[1,null]}'


def test_items_that_differ_share_a_table():
    columns, more = columns_of([{"a": 1}, {"b": 2, "a": 3}, "plain", {f"c{n}": n for n in range(20)}])
    assert columns[:3] == ["a", "b", "value"] and len(columns) == 12 and more == 11
    assert [cell["brief"] for cell in cells_of({"b": 2}, ["a", "b"])] == ["\u2013", "2"]


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "\u2013"), (0.034, "0.034 s"), (3, "3 s"), (130, "2 min 10 s"), (14_700, "4 h 5 min"),
     (timedelta(days=3, hours=2), "3 d 2 h")],
)  # fmt: skip
def test_durations_are_told_in_two_units(value, words):
    assert seconds(value) == words


def test_templates_escape_whatever_they_are_called():
    assert environment().autoescape is True
    for name in environment().list_templates():
        source = environment().loader.get_source(environment(), name)[0]
        assert not re.search(r"\|\s*safe\b|autoescape|Markup", source), name


async def with_letters(house, count):
    """Return a run with so many dead letters, every other one because of a time-out."""
    run = await house.queue.start_run("books")
    urls = [f"https://dead{n}.example.com/" for n in range(count)]
    await house.queue.enqueue(run.id, [Task(url=url, step="listing") for url in urls])
    leases = (await house.queue.claim("machine-1", run_id=run.id, limit=count)).leases
    errors = ["FetchTimeout: slow", "HttpStatus: 404"]
    await house.queue.settle([Bury(lease, errors[n % 2]) for n, lease in enumerate(leases)])
    return run


async def _rows(client, path):
    """Return how many rows a list has on all its pages together."""
    count = 0
    while path:
        text = (await client.get(path)).text
        count += max(0, text.count("<tr>") - 1)  # without rows there is no table
        _, _, rest = text.partition('rel="next" href="')
        path = rest.partition('"')[0].replace("&amp;", "&").removeprefix(HERE)
    return count


async def _host(house, name):
    return next(iter([host async for host in house.queue.hosts() if host.host == name]))
