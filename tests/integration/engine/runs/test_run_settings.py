"""A run remembers the settings it was made with, and they can be changed while it runs."""

import asyncio
import shlex

import pytest

from shoal.cli.exits import Exit
from shoal.cli.options.workers import read_job
from shoal.core.model import DeadFilter, Task
from shoal.fleet.connect import connect
from shoal.fleet.run.launch import launch
from shoal.fleet.run.open_run import open_job
from shoal.fleet.run.settings import change_settings, list_settings
from shoal.queue.open import open_queue
from tests.integration.engine.shell import typed

SCRAPER = """
from shoal import Page, Scraper

pages = Scraper("pages", rate=None, robots=False, retries=0)

@pages.step
async def page(page: Page):
    yield {"url": page.url}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "pages.py").write_text(SCRAPER)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines_of(text):
    """Return the commands of the closing lines by their labels."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {label: command.strip() for label, _, command in pairs if command.strip().startswith("shoal ")}


async def test_every_command_of_the_closing_lines_does_what_it_says(folder, origin):
    urls = [f"--url={origin.url}/{number}" for number in range(6)]
    options = ("--set", "rate=1/min", "--for", "1s", "-w", "2", "--queue", "sqlite:///my queue.db")
    done = await typed("run", "pages.py", *urls, *options, folder=folder)
    assert done.code == Exit.TIMED_OUT, done.err
    shown = lines_of(done.err)
    words = shlex.split(shown["Resume"])
    assert words[5:] == ["--for", "1s", "--workers", "2", "--queue", "sqlite:///my queue.db"]
    run_id = words[4]
    listed = await typed("set", run_id, "--json", "--queue", "sqlite:///my queue.db", folder=folder)
    values = {row["setting"]: row["value"] for row in listed.rows}
    assert (values["rate"], values["allow_private"]) == ("1/min", f"127.0.0.1:{origin.port}")
    changed = await typed("set", run_id, "rate=None", "--queue", "sqlite:///my queue.db", folder=folder)
    assert changed.code == Exit.OK and "rate=none" in changed.err
    words[words.index("1s")] = "60s"  # a second is short for a busy machine
    again = await typed(*words[1:], folder=folder)
    assert f"Settings of the run: allow_private=127.0.0.1:{origin.port}, rate=none." in again.err, again.err
    assert "Done: 6 pages, 6 items" in again.err
    exported = await typed(*shlex.split(lines_of(again.err)["Results"])[1:], folder=folder)
    assert exported.code == Exit.OK
    assert len((folder / "pages.jsonl").read_text().splitlines()) == 6


async def test_a_run_of_which_all_tasks_are_private_stops_and_says_the_option(folder, origin):
    (folder / "urls.txt").write_text("".join(f"{origin.url}/{number}\n" for number in range(50)))
    done = await typed("run", "pages.py", "--urls-file", "urls.txt", folder=folder)
    assert done.code == Exit.FAILED
    assert "Stopped with 50 tasks left: 0 pages, 0 items in" in done.err
    assert f"they stay queued. Resume the run with: --allow-private 127.0.0.1:{origin.port}" in done.err
    more = await typed(*shlex.split(lines_of(done.err)["Resume"])[1:], folder=folder)
    assert more.code == Exit.OK and "Done: 50 pages" in more.err, more.err


async def test_the_workers_of_a_running_run_follow_a_changed_rate_and_limit(bench, origin):
    job = read_job(bench.write(SCRAPER), queue=bench.queue_url, urls=[origin.url], changes=["rate=1/h"])
    async with open_queue(bench.queue_url) as queue:
        opened = await open_job(queue, job)
        seeds = [Task(url=f"{origin.url}/{number}", step="page") for number in range(9)]
        fetched = asyncio.Event()
        bench.witness.on_saw = lambda snapshot, pool: snapshot.stats.completed and fetched.set()
        await queue.enqueue(opened.run.id, seeds)
        working = asyncio.create_task(launch(opened, bench.witness))
        await asyncio.wait_for(fetched.wait(), 60)
        # Without the change it would take eight hours.
        await change_settings(queue, opened.run.id, {"rate": None, "max_pages": 7})
        summary = await asyncio.wait_for(working, 60)
    assert summary.snapshot.run.reason == "max_pages=7 reached"
    assert summary.snapshot.stats.completed == 7


async def test_workers_follow_a_pause_that_is_changed_while_they_rest(bench, origin):
    job = read_job(
        bench.write(SCRAPER), queue=bench.queue_url, urls=[origin.url], workers=2, changes=["pause=1h"]
    )
    async with open_queue(bench.queue_url) as queue:
        opened = await open_job(queue, job)
        await queue.enqueue(
            opened.run.id, [Task(url=f"{origin.url}/{number}", step="page") for number in range(9)]
        )
        resting = asyncio.Event()
        bench.witness.on_saw = lambda snapshot, pool: snapshot.stats.completed == 2 and resting.set()
        working = asyncio.create_task(launch(opened, bench.witness))
        await asyncio.wait_for(resting.wait(), 60)
        # Without the change it would take four hours.
        await change_settings(queue, opened.run.id, {"pause": "0.1-0.2s"})
        rows = {row.setting: (row.value, row.change) for row in await list_settings(queue, opened.run.id)}
        summary = await asyncio.wait_for(working, 60)
    assert rows["pause"] == ("0.1-0.2s", "now")
    assert summary.snapshot.stats.completed == 9


async def test_pages_to_skip_are_not_fetched_and_can_be_replayed(bench, origin):
    urls = [f"{origin.url}/{name}" for name in ("a", "b", "calendar/1", "calendar/2")]
    async with open_queue(bench.queue_url) as queue:
        job = read_job(bench.write(SCRAPER), queue=bench.queue_url, urls=urls)
        opened = await open_job(queue, job)
        await queue.enqueue(opened.run.id, [Task(url=url, step="page") for url in urls])
        await change_settings(queue, opened.run.id, {"skip": f"{origin.url}/calendar/*"})
        summary = await launch(opened, bench.witness)
        assert (summary.snapshot.stats.completed, summary.snapshot.stats.dead) == (2, 2)
        assert origin.visits == {"/a": 1, "/b": 1}
        await change_settings(queue, opened.run.id, {"skip": None})
        assert await queue.replay(opened.run.id, where=DeadFilter(error="Skipped")) == 2
        again = await launch(opened, bench.witness)
        assert (again.snapshot.stats.completed, again.snapshot.stats.dead) == (4, 0)


async def test_a_program_resumes_and_changes_a_run(folder, origin):
    async with connect(f"sqlite:///{folder}/queue.db") as app:
        tasks = [Task(url=f"{origin.url}/{number}") for number in range(4)]
        settings = {"rate": "1/h", "allow_private": [f"127.0.0.1:{origin.port}"]}
        first = await app.start("pages.py", tasks=tasks, settings=settings)
        run = await app.start("pages.py", resume="newest", workers=1)
        assert run.id == first.id
        rows = {row.setting: row.value for row in await run.settings()}
        assert (rows["rate"], rows["allow_private"]) == ("1/h", f"127.0.0.1:{origin.port}")
        await run.set(rate=None)
        stats = await asyncio.wait_for(run.wait(), 60)
        assert stats.completed == 4
