"""A program starts runs as commands and the JSON API do: sources, routes, rejects, dead letters, memory."""

import asyncio
import json
import tracemalloc
from datetime import timedelta

import pytest

import shoal
from shoal.core.errors import (
    InvalidInput,
    InvalidSetting,
    InvalidTask,
    RunConflict,
    ShoalError,
    TaskDied,
    UnknownTask,
)
from shoal.core.model import DeadFilter, Task
from shoal.fleet import left_to_others
from shoal.fleet.sources.names import read_sources
from shoal.web.actions import OperatorActions
from shoal.web.auth import Principal
from shoal.web.context import WebContext, WebSettings
from shoal.web.requests import StartRunBody
from shoal.web.sampler import Sampler
from tests.integration.engine.shell import typed

SCRAPER = """
from shoal import Page, Scraper, Task

news = Scraper("news", rate=None, robots=False, retries=0, ttl="1h", allow_private="127.0.0.0/8")

@news.step
async def article(page: Page):
    yield {"url": page.url}

@news.step
async def live(page: Page):
    yield {"live": page.url}

people = Scraper("people", retries=0)

@people.step(fetch=None)
async def person(task: Task):
    if task.payload["name"] == "nobody":
        raise LookupError("no such person")
    if task.payload["name"] != "silent":
        yield {"hello": task.payload["name"]}
"""
TOML = """
[scrapers]
news = "news.py:news"
people = "news.py:people"
alone = {module = "news.py:people", mode = "single"}

[[routes]]
match = "*/live/*"
step = "live"
priority = 9
partition = "priority"
ttl = "30m"
"""
MINUTE = timedelta(minutes=1)
OPERATOR = Principal(name="me", role="operator")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "news.py").write_text(SCRAPER)
    (tmp_path / "shoal.toml").write_text(TOML)
    return tmp_path


@pytest.fixture
async def app(folder):
    async with shoal.connect(f"sqlite:///{folder}/shoal.db", folder=folder) as app:
        yield app


async def entered(app, run_id):
    return [status.task async for status in app.queue.tasks(run_id)]


async def test_a_url_becomes_the_same_task_by_command_by_http_and_by_program(app, folder):
    url = "https://news.example/live/1"
    done = await typed("enqueue", "news", "--url", url, "--run", "typed", folder=folder)
    assert done.code == 0, done.err
    await app.start("news", urls=[url], run_id="program")
    site = WebContext(app, Sampler(app.queue), WebSettings.read(operator_token="operator-0123456789abcdef"))
    await OperatorActions(site, OPERATOR).start(StartRunBody(scraper="news", urls=[url], run_id="http"))
    run = await app.run("program")
    assert (await run.enqueue(urls=["https://news.example/live/2"])).added == 1
    await run.enqueue(Task(url=f"https://news.example/live/{n}") for n in (2, 3))
    found = {name: await entered(app, name) for name in ("typed", "http", "program")}
    wanted = Task(url=url, step="live", priority=9, partition="priority", ttl=timedelta(minutes=30), depth=0)
    assert found["typed"] == found["http"] == [wanted]
    assert {(one.step, one.priority, one.partition, one.ttl) for one in found["program"]} == {
        ("live", 9, "priority", timedelta(minutes=30))
    }
    assert len(found["program"]) == 3


async def test_every_source_of_the_command_is_one_of_the_program(app, folder):
    (folder / "urls.txt").write_text("https://news.example/1\nnot a url\n")
    run = await app.start(
        "news",
        urls_file=str(folder / "urls.txt"),
        combine="https://news.example/{state}",
        axis=["state:CA,NY"],
        partition=":home",
        rejects=str(folder / "rejects.jsonl"),
    )
    assert {task.url for task in await entered(app, run.id)} == {
        "https://news.example/1",
        "https://news.example/CA",
        "https://news.example/NY",
    }
    assert (run.report.added, run.report.invalid) == (3, 1)
    (refused,) = run.report.refused
    assert refused.where.endswith("urls.txt:2")
    assert json.loads((folder / "rejects.jsonl").read_text())["where"] == refused.where
    with pytest.raises(InvalidSetting, match="urls_file"):
        await app.start("news", urlsfile="x")


async def test_one_bad_url_among_good_ones_is_skipped_counted_and_shown(app):
    good = [f"https://news.example/{number}" for number in range(10)]
    run = await app.start("news", urls=[*good[:5], "bad url", *good[5:], 7])
    assert (run.report.added, run.report.invalid) == (10, 2)
    assert [one.where for one in run.report.refused] == ["urls[5]", "urls[11]"]
    seen = []
    await app.start("news", urls=["bad url"], on_invalid=seen.append)
    assert [(one.where, one.text) for one in seen] == [("urls[0]", "bad url")]


async def test_nothing_is_made_when_already_the_first_thing_fails(app, folder):
    with pytest.raises(InvalidTask, match=r"urls\[0\]"):
        await app.start("news", urls=["bad url", "https://news.example/1"], on_invalid="raise")
    with pytest.raises(InvalidInput):
        await app.start("news", urls_file=str(folder / "missing.txt"))

    def broken():
        raise RuntimeError("the database is away")
        yield ""

    with pytest.raises(RuntimeError):
        await app.start("news", urls=broken())
    assert await app.queue.runs() == []


async def test_an_error_after_a_run_was_made_names_the_run(app):
    def breaks():
        yield from (f"https://news.example/{number}" for number in range(12_000))
        raise RuntimeError("the database is away")

    with pytest.raises(RuntimeError) as found:
        await app.start("news", urls=breaks())
    (run,) = await app.queue.runs()
    assert run.id in found.value.__notes__[0]
    with pytest.raises(InvalidTask):
        await app.start("news", urls=["https://news.example/1", "bad url"], on_invalid="raise")
    assert await app.queue.runs() == [run], "a start that is refused leaves nothing behind"


@pytest.mark.long
async def test_urls_stream_in_from_generators_of_both_kinds_and_are_never_held(app):
    def urls():
        for number in range(30_000):
            yield f"https://news.example/{number}/{'x' * 200}"

    async def more():
        for number in range(100):
            yield f"https://news.example/more/{number}"

    await app.start("news", urls=["https://news.example/warm"])
    tracemalloc.start()
    run = await app.start("news", urls=urls(), tasks=(Task(url=url) for url in ("https://a.example/",)))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert run.report.added == 30_001
    assert most < 10 << 20  # the URLs alone are 7 MB, their tasks 20
    assert (await run.enqueue(urls=more())).added == 100


async def test_invalid_seeds_become_dead_letters_with_their_place_once(app):
    urls = ["https://news.example/1", "bad url", "https://news.example/2", "ftp://x.example/"]
    run = await app.start("news", urls=urls, on_invalid="dead", run_id="r1")
    assert (run.report.added, run.report.invalid) == (2, 2)
    letters = {letter.task.payload["where"]: letter for letter in await run.dead()}
    assert set(letters) == {"urls[1]", "urls[3]"}
    assert letters["urls[1]"].task.payload["text"] == "bad url"
    assert letters["urls[1]"].error.startswith("InvalidTask: ") and "bad url" in letters["urls[1]"].error
    again = await app.start("news", urls=urls, on_invalid="dead", run_id="r1")
    assert (again.report.added, again.report.duplicate, again.report.invalid) == (0, 2, 2)
    assert len(await run.dead()) == 2
    assert await run.drop(where=DeadFilter(step="invalid-seed")) == 2


async def test_a_worker_that_is_quicker_buries_an_invalid_seed_in_the_same_words(app):
    task = Task(step="invalid-seed", payload={"where": "a:1", "text": "bad", "reason": "it is none"})
    run = await app.start("people", tasks=[Task(payload={"name": "ann"})], workers=0)
    await app.queue.enqueue(run.id, [task])
    await app.start("people", run_id=run.id, workers=1)
    assert (await run.wait(MINUTE)).dead == 1
    (letter,) = await run.dead()
    assert letter.error == "InvalidTask: Invalid task: it is none"


async def test_gather_answers_each_payload_with_its_own_items_whatever_the_order_and_after_a_restart(
    app, folder
):
    payloads = [{"name": "ann"}, {"name": "bob"}]
    first = await app.gather("people", payloads, run_id="g", workers=1, timeout=MINUTE)
    assert first == [[{"hello": "ann"}], [{"hello": "bob"}]]
    async with shoal.connect(app.queue_url, folder=folder) as restarted:
        assert await restarted.gather("people", payloads, run_id="g", timeout=MINUTE) == first
    again = [{"name": "bob"}, {"name": "eve"}, {"name": "bob"}, {"name": "silent"}]
    second = await app.gather("people", again, run_id="g", workers=1, timeout=MINUTE)
    assert second == [[{"hello": "bob"}], [{"hello": "eve"}], [{"hello": "bob"}], []]
    assert (await app.stats("people", "g")).completed == 4


async def test_gather_without_a_worker_says_how_to_start_one(app, caplog):
    with pytest.raises(TimeoutError):
        await app.gather("people", [{"name": "ann"}], run_id="g", timeout=timedelta(seconds=0.1))
    (said,) = [message for message in caplog.messages if "No worker" in message]
    assert said.startswith("No worker works on run g yet; pass workers=1 to start one here, or run: shoal")
    assert await app.gather("people", [{"name": "ann"}], run_id="g", workers=1, timeout=MINUTE)


async def test_one_dead_task_does_not_hide_the_results_of_the_others(app):
    names = [{"name": "ann"}, {"name": "nobody"}, {"name": "bob"}]
    found = await app.gather("people", names, workers=1, timeout=MINUTE, return_exceptions=True)
    assert (found[0], found[2]) == ([{"hello": "ann"}], [{"hello": "bob"}])
    assert isinstance(found[1], TaskDied) and "no such person" in found[1].error
    with pytest.raises(TaskDied) as died:
        await app.gather("people", names, run_id=found[1].run_id, timeout=MINUTE)
    assert sorted(died.value.results.values(), key=str) == [[{"hello": "ann"}], [{"hello": "bob"}]]
    odd = await app.gather("people", [{"name": object()}], return_exceptions=True)
    assert isinstance(odd[0], InvalidTask)


async def test_a_chosen_few_are_waited_for_while_the_run_goes_on(app):
    late = Task(payload={"name": "late"}, delay=timedelta(hours=1))
    run = await app.start("people", tasks=[late], workers=1)
    report = await run.enqueue([Task(payload={"name": n}) for n in ("ann", "nobody")] + [Task(step="x")])
    ann, nobody, refused = report.ids
    assert refused is None and (report.added, report.invalid) == (2, 1)
    assert await run.result(ann, MINUTE) == [{"hello": "ann"}]
    for unknown in ("0" * 32, "ann"):
        with pytest.raises(UnknownTask, match=f"has no task '{unknown}'"):
            await run.result(unknown, MINUTE)
    with pytest.raises(UnknownTask):
        await run.wait([ann, "0" * 32], MINUTE)
    with pytest.raises(UnknownTask):
        assert [item async for item in run.results(ids=["0" * 32])] == []
    with pytest.raises(TaskDied, match="no such person"):
        await run.result(nobody, MINUTE)
    assert (await run.wait([ann, nobody], MINUTE)).remaining == 1
    assert [item async for item in run.results(ids=[ann])] == [{"hello": "ann"}]
    with pytest.raises(TimeoutError):
        await run.wait(run.ids, timedelta(milliseconds=200))
    await run.cancel()
    assert set((await run.outcomes(run.ids)).errors) == set(run.ids)


async def test_a_scraper_is_routed_by_its_mode_as_the_command_does_it(app):
    single = await app.start("alone", tasks=[Task(payload={"name": "ann"})])
    assert (await single.wait(MINUTE)).items == 1
    many = await app.start("people", tasks=[Task(payload={"name": "ann"})], settings={"mode": "distributed"})
    with pytest.raises(TimeoutError):
        await many.wait(timedelta(milliseconds=300))
    assert many.worker_command.startswith(f"shoal work people --run {many.id}")
    assert (await app.stats("people", many.id)).pending == 1
    with pytest.raises(RunConflict):
        await app.stats("news", many.id)


async def test_what_is_said_of_workers_reaches_them(app):
    job = app.job("people", workers=3, steps=["person"], concurrency=2, stagger=timedelta(seconds=1))
    assert (job.workers, job.steps, job.concurrency, job.stagger.total_seconds()) == (3, ["person"], 2, 1.0)
    run = await app.start(
        "people",
        tasks=[Task(payload={"name": "ann"})],
        workers=1,
        concurrency=1,
        steps=["person"],
        stagger="100ms",
    )
    assert (await run.wait(MINUTE)).items == 1
    (worker,) = await run.workers()
    assert worker.info["steps"] == ["person"]


async def test_a_refused_start_leaves_no_run(app):
    tasks = [Task(payload={"name": "ann"})]
    for wrong in ({"partition_table": {1: ["CA"]}}, {"stagger": "soon"}, {"heartbeat": "0s"}):
        with pytest.raises(InvalidSetting, match=r"partition|stagger|heartbeat"):
            await app.start("people", tasks=tasks, workers=1, **wrong)
    assert not await app.runs()


def test_one_url_is_one_url_and_an_empty_list_is_no_source():
    assert [name for name, _ in read_sources("https://a.example/", [], {}).given] == ["urls"]
    assert read_sources("https://a.example/", (), {}).given[0][1] == ["https://a.example/"]


async def test_the_queue_is_that_of_the_project_where_none_is_named(folder, monkeypatch):
    monkeypatch.delenv("SHOAL_QUEUE", raising=False)
    text = (folder / "shoal.toml").read_text()
    (folder / "shoal.toml").write_text(f'queue = "sqlite:///{folder}/named.db"\n{text}')
    async with shoal.connect(folder=folder) as app:
        assert app.queue_url.endswith("named.db")
    monkeypatch.setenv("SHOAL_QUEUE", f"sqlite:///{folder}/meant.db")
    async with shoal.connect(folder=folder) as app:
        assert app.queue_url.endswith("meant.db")
        await asyncio.sleep(0)


CLOSED = """
from shoal import Page, Scraper

closed = Scraper("closed", rate=None, retries=0)

@closed.step
async def article(page: Page):
    yield {"url": page.url}

@closed.seeds
async def pages():
    yield "http://127.0.0.1:1/"
"""


async def test_a_private_host_that_nobody_typed_stops_the_run_and_buries_nothing(app, folder):
    (folder / "closed.py").write_text(CLOSED)
    run = await app.start(str(folder / "closed.py"), workers=1)
    with pytest.raises(ShoalError, match=r"private hosts .*--allow-private 127\.0\.0\.1:1"):
        await asyncio.wait_for(run.wait(), 60)
    stats = await run.stats()
    assert (stats.remaining, stats.dead) == (1, 0)


async def test_a_run_that_has_nothing_new_has_ended_and_says_why(app):
    tasks = [Task(payload={"name": name}, step="person") for name in ("ann", "bob")]
    await (await app.start("people", tasks=tasks, workers=1, settings={"dedup": "1h"})).wait(MINUTE)
    for workers in (0, 1):
        again = await app.start("people", tasks=tasks, workers=workers, settings={"dedup": "1h"})
        stats = await again.wait(MINUTE)
        assert (again.report.known, stats.tasks) == (2, 0)
        assert "nothing new" in (await app.queue.run(again.id)).reason


async def test_a_wait_ends_with_the_workers_of_some_partitions(app, monkeypatch):
    monkeypatch.setattr(left_to_others, "UNSERVED_SECONDS", 0.0)
    tasks = [Task(payload={"name": name}, step="person", partition=name) for name in ("ann", "bob")]
    run = await app.start("people", tasks=tasks, workers=1, partitions=["ann"])
    stats = await run.wait(MINUTE)
    assert (stats.completed, stats.remaining) == (1, 1)


async def test_a_refused_task_is_left_out_of_every_wait(app):
    tasks = [Task(payload={"name": "ann"}, step="person"), Task(url="nope", step="person")]
    run = await app.start("people", tasks=tasks, workers=1)
    assert run.ids[1] is None
    await run.wait(run.ids, MINUTE)
    assert list((await run.outcomes(run.ids, MINUTE)).items) == [run.ids[0]]
    with pytest.raises(InvalidInput, match="was refused"):
        await run.result(run.ids[1])
    with pytest.raises(InvalidInput, match="A payload is a dict"):
        await app.gather("people", [tasks[0]])
