"""Shoal from Python."""

import asyncio
from datetime import timedelta

import pytest

import shoal
from shoal.core.errors import InvalidSetting, TaskExpired, UnknownRun
from tests.integration.engine.origin import Answer

SCRAPER = """
from shoal import Page, Scraper, Task

pages = Scraper("pages", rate=None, robots=False, retries=0, allow_private="127.0.0.0/8")

@pages.step
async def page(page: Page):
    yield {"url": page.url}

profiles = Scraper("profiles", retries=0)

@profiles.step(fetch=None)
async def profile(task: Task):
    if task.payload["name"] == "nobody":
        raise LookupError("no such person")
    yield {"hello": task.payload["name"]}
"""
TOML = """
[scrapers]
pages = "people.py:pages"
profiles = "people.py:profiles"
"""
MINUTE = timedelta(minutes=1)


@pytest.fixture
async def app(tmp_path):
    (tmp_path / "people.py").write_text(SCRAPER)
    (tmp_path / "shoal.toml").write_text(TOML)
    async with shoal.connect(f"sqlite:///{tmp_path}/queue.db", folder=tmp_path) as app:
        yield app


async def test_a_run_is_started_watched_and_its_results_stream_in(app, origin):
    urls = [f"{origin.url}/{number}" for number in range(10)]
    run = await app.start("pages", urls=urls, workers=2)
    found = [item["url"] async for item in run.results()]
    assert sorted(found) == sorted(urls)
    assert (await run.wait(MINUTE)).completed == 10
    states = [snapshot.state async for snapshot in run.watch()]
    assert states == ["finished"]


async def test_a_run_writes_its_items_to_a_file_once(app, tmp_path):
    tasks = [shoal.Task(payload={"name": name}) for name in ("ann", "bob")]
    run = await app.start("profiles", tasks=tasks, workers=1)
    await run.wait(MINUTE)
    report = await run.export(tmp_path / "out.csv", step="profile")
    assert (report.items, report.is_complete) == (2, True)
    assert sorted((tmp_path / "out.csv").read_text().split()) == ["ann", "bob", "hello"]
    with pytest.raises(InvalidSetting, match="already exists"):
        await run.export(tmp_path / "out.csv")
    assert (await run.export(tmp_path / "out.csv", existing="replace", step="other")).items == 0


async def test_tasks_added_after_the_workers_have_ended_need_others_which_is_said(app):
    run = await app.start("profiles", tasks=[shoal.Task(payload={"name": "ann"})], workers=1)
    await run.wait(MINUTE)
    while not run.check():
        await asyncio.sleep(0.01)
    (added,) = (await run.enqueue([shoal.Task(payload={"name": "bob"})])).ids
    with pytest.raises(TaskExpired, match="no worker works on the run; start some"):
        await run.result(added, MINUTE)
    working = await app.work(run.id, workers=1)
    assert await working.result(added, MINUTE) == [{"hello": "bob"}]
    (late,) = (await run.enqueue([shoal.Task(payload={"name": "cyd"}, delay=timedelta(hours=1))])).ids
    await run.cancel()
    with pytest.raises(TaskExpired, match="left undone and has no result: the run is cancelled"):
        await run.result(late, MINUTE)


async def test_a_run_is_taken_up_again_by_its_id(app, origin):
    first = await app.start("pages", urls=[f"{origin.url}/1"], run_id="mine")
    with pytest.raises(TimeoutError):
        await first.wait(timedelta(milliseconds=100))
    await app.start("pages", urls=[f"{origin.url}/1"], run_id="mine", workers=1)
    with pytest.raises(UnknownRun):
        await app.run("nothing")
    again = await app.run("mine")
    assert (await again.wait(MINUTE)).completed == 1
    assert origin.visits == {"/1": 1}


async def test_closing_the_app_stops_its_workers(tmp_path, origin, app):
    origin.answer = lambda path: Answer(after=60)
    async with shoal.connect(f"sqlite:///{tmp_path}/queue.db", folder=tmp_path) as other:
        run = await other.start("pages", urls=[f"{origin.url}/1"], workers=1)
        async with asyncio.timeout(30):
            while not origin.visits:
                await asyncio.sleep(0.02)
    stats = await app.queue.stats(run.id)
    assert (stats.leased, stats.pending) == (0, 1)
