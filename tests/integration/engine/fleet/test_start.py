"""A cluster of one file: a coordinator, and workers that stay."""

import asyncio
import json
import os
import re
import signal
from pathlib import Path

import pytest

import shoal
from shoal.cli.exits import Exit
from shoal.core.errors import InvalidSetting
from shoal.fleet.cluster_roles import MessageObserver, enqueue_lock
from shoal.fleet.project.file import Project
from shoal.fleet.sources.names import seeds_of
from shoal.queue.open import open_queue
from tests.integration.engine.shell import start, typed

SCRAPER = """
from shoal import Page, Scraper, Task

pages = Scraper("pages", rate=None, robots=False, retries=0)

@pages.step
async def page(page: Page):
    yield {"url": page.url}

names = Scraper("names", retries=0)

@names.step(fetch=None)
async def name(task: Task):
    yield {"name": task.payload["name"]}
"""
TOML = """
queue = "sqlite:///queue.db"

[coordinator]
rejects = "rejects/{{scraper}}.jsonl"

[workers]
per_machine = 1
batch_size = 10

[storage]
results = "results/{{scraper}}-{{run}}.jsonl"

[scrapers.pages]
module = "people.py:pages"
seeds = {{ urls_file = "urls.txt", url = ["{site}/typed"] }}

[scrapers.names]
module = "people.py:names"
seeds = {{ axis = ["name:ann,bob"] }}

[scrapers.idle]
module = "people.py:names"
"""
COORDINATOR = ("start", "--role", "coordinator", "--json")
WORKER = ("start", "--role", "worker", "--json")


@pytest.fixture
def folder(tmp_path, origin):
    (tmp_path / "people.py").write_text(SCRAPER)
    (tmp_path / "shoal.toml").write_text(TOML.format(site=origin.url))
    urls = [f"{origin.url}/{number}" for number in range(20)]
    (tmp_path / "urls.txt").write_text("\n".join([*urls, "nonsense"]))
    return tmp_path


async def ended(process, sign=None):
    if sign:
        process.send_signal(sign)
    out, err = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, [json.loads(line) for line in out.decode().splitlines()], err.decode()


def results(folder, scraper):
    return [
        json.loads(line)
        for file in (folder / "results").glob(f"{scraper}-*.jsonl")
        for line in file.read_text().splitlines()
    ]


async def test_a_program_starts_a_machine_with_one_call_and_results_that_it_replaces_are_named(
    folder, monkeypatch
):
    monkeypatch.chdir(folder)
    file = folder / "shoal.toml"
    file.write_text(file.read_text().replace("{scraper}-{run}", "{scraper}-all"))
    worker = asyncio.create_task(shoal.start_cluster("shoal.toml", "worker"))
    said = [[], []]
    for messages in said:
        observer = MessageObserver(messages.append)
        summaries = await asyncio.wait_for(shoal.start_cluster(folder, "coordinator", observer=observer), 60)
        counts = sorted((one.snapshot.stats.items, one.enqueued.invalid) for one in summaries)
        assert counts == [(2, 0), (21, 1)]
    worker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(worker, 60)
    first, second = ([text for text in messages if "is replaced. To keep" in text] for messages in said)
    assert (first, len(second)) == ([], 2)
    assert len(results(folder, "pages")) == 21 and len(results(folder, "names")) == 2
    with pytest.raises(InvalidSetting, match="role"):
        await shoal.start_cluster(folder, "boss")


async def test_a_coordinator_and_a_worker_carry_out_every_scraper_of_the_file(folder, origin):
    below = folder / "deep"
    below.mkdir()
    worker = await start(*WORKER, folder=below)
    done = await typed(*COORDINATOR, folder=below)
    rows = done.rows
    assert done.code == Exit.OK, done.err
    assert sorted((row["completed"], row["items"], row["invalid"]) for row in rows) == [
        (2, 2, 0),
        (21, 21, 1),
    ]
    assert len(results(folder, "pages")) == 21
    assert sorted(item["name"] for item in results(folder, "names")) == ["ann", "bob"]
    assert "urls.txt:21" in (folder / "rejects" / "pages.jsonl").read_text()
    assert [refused["text"] for row in rows for refused in row["refused"]] == ["nonsense"]
    messages = [json.loads(line).get("message", "") for line in done.err.splitlines()]
    assert any("Skipped" in message and "urls.txt:21" in message for message in messages)
    again = (await typed(*COORDINATOR, "names", folder=folder)).row
    assert again["completed"] == 2 and again["run_id"] not in {row["run_id"] for row in rows}
    code, served, err = await ended(worker, signal.SIGTERM)
    assert code == Exit.OK, err
    assert sum(row["pages"] for row in served) == 25 and len(served) == 3


async def test_a_coordinator_that_was_killed_goes_on_with_its_own_run_whatever_others_there_are(
    folder, origin
):
    first = await start(*COORDINATOR, "pages", folder=folder)
    async with open_queue(f"sqlite:///{folder}/queue.db") as queue:
        async with asyncio.timeout(30):
            while not (runs := await queue.runs()) or (await queue.stats(runs[0].id)).pending < 21:
                await asyncio.sleep(0.05)
        os.killpg(first.pid, signal.SIGKILL)
        await first.communicate()
        side = await typed("enqueue", "pages", f"--url={origin.url}/side", "--json", folder=folder)
        await queue.start_run("pages", run_id="ondemand_pages")
        # Workers drain what is there, so that the run looks finished.
        await typed(*WORKER, "--run", runs[0].id, folder=folder)
        done = await typed(*COORDINATOR, "pages", folder=folder)
        assert (done.code, done.row["run_id"], done.row["completed"]) == (Exit.OK, runs[0].id, 21), done.err
        assert (await queue.stats(side.row["run_id"])).tasks == 1
        assert len(await queue.runs()) == 3
    assert len(results(folder, "pages")) == 21
    assert set(origin.visits.values()) == {1}


async def test_a_coordinator_that_is_stopped_leaves_the_run_to_its_workers(folder):
    process = await start("start", "--role", "coordinator", "names", folder=folder)
    async with open_queue(f"sqlite:///{folder}/queue.db") as queue:
        async with asyncio.timeout(30):
            while not (runs := await queue.runs()) or not (await queue.stats(runs[0].id)).pending:
                await asyncio.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = await asyncio.wait_for(process.communicate(), 30)
        assert process.returncode == Exit.PARTIAL
        assert "shoal start --role coordinator" in err.decode()
        assert (await queue.stats(runs[0].id)).pending == 2


async def test_workers_of_named_runs_end_with_them(folder):
    queued = await typed("enqueue", "names", "--axis", "name:a,b,c", "--json", folder=folder)
    served = await typed(*WORKER, "names", "--run", queued.row["run_id"], folder=folder)
    assert (served.code, served.row["pages"]) == (Exit.OK, 3)
    foreign = await typed(*WORKER, "pages", "--run", queued.row["run_id"], folder=folder)
    assert foreign.code == Exit.USAGE and "belongs to scraper 'names'" in foreign.err


async def test_workers_of_some_steps_say_which_and_that_they_wait_while_only_others_are_left(folder):
    with (folder / "people.py").open("a") as file:
        file.write("\n@names.step(fetch=None)\nasync def detail(task: Task):\n    yield {}\n")
    queued = await typed("enqueue", "names", "--axis", "name:a,b", "--json", folder=folder)
    worker = await start(*WORKER, "names", "--steps", "detail", folder=folder)
    said = []
    async with asyncio.timeout(60):
        while not said or "Left" not in said[-1]:
            said.append(json.loads(await worker.stderr.readline())["message"])
    assert said[0] == "Waiting for runs of names, with 1 worker each, for tasks of detail only."
    assert said[-1].endswith("2 tasks of name, which --steps detail does not run.")
    code, _, err = await ended(worker, signal.SIGTERM)
    assert code == Exit.OK, err
    async with open_queue(f"sqlite:///{folder}/queue.db") as queue:
        assert (await queue.stats(queued.row["run_id"])).pending == 2


async def test_a_file_that_lacks_something_is_an_error_of_usage(tmp_path):
    (tmp_path / "shoal.toml").write_text('[scrapers.books]\nmodule = "books.py"\n')
    answer = await typed(*COORDINATOR, folder=tmp_path)
    assert answer.code == Exit.USAGE and "shoal.toml: queue is missing; add queue =" in answer.err


PAGE = (Path(__file__).parents[4] / "docs" / "how-to" / "cluster.md").read_text()


async def test_the_file_of_the_page_can_be_read(tmp_path):
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "shoal.toml").write_text(text)
    project = Project.find(tmp_path)
    assert project.cluster.workers.partitions == ("CA", "NY")
    assert seeds_of(project.scrapers["books"]).file == "urls.csv"


async def test_a_coordinator_that_is_refused_by_the_lock_makes_no_run(folder):
    file = folder / "shoal.toml"
    file.write_text(file.read_text().replace("[coordinator]", "[coordinator]\nresume = false"))
    async with open_queue(f"sqlite:///{folder}/queue.db") as queue:
        async with enqueue_lock(queue, "names"):
            done = await typed(*COORDINATOR, "names", folder=folder)
        assert done.code == Exit.BUSY, done.err
        assert await queue.runs() == []


async def test_a_coordinator_whose_source_cannot_be_read_leaves_no_run_behind(folder):
    (folder / "urls.txt").unlink()
    done = await typed(*COORDINATOR, "pages", folder=folder)
    assert done.code == Exit.USAGE, done.err
    async with open_queue(f"sqlite:///{folder}/queue.db") as queue:
        assert await queue.runs() == []
