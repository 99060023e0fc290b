"""What a cluster and an app say of themselves: logs, metrics and heartbeats."""

import asyncio
import json
import os
import re
import signal
from contextlib import suppress
from datetime import timedelta

import pytest

import shoal
from shoal.cli.exits import Exit
from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.core.model import Task
from shoal.fleet import cluster_roles
from shoal.fleet.cluster_roles import Coordinator
from shoal.fleet.job import Job
from shoal.fleet.project.file import Project
from shoal.fleet.project.scrapers import load
from shoal.fleet.run.open_run import OpenedRun
from shoal.fleet.telemetry.logs import LogFormat, LogPlan
from shoal.queue.open import open_queue
from tests.integration.engine.commands.test_inspecting import fetched, sampled
from tests.integration.engine.fleet.test_app import SCRAPER as PEOPLE
from tests.integration.engine.fleet.test_app import TOML as PROJECT
from tests.integration.engine.fleet.test_start import SCRAPER, TOML, ended
from tests.integration.engine.shell import start, typed

WATCHED = """
[logs]
folder = "logs"
format = "json"
"""


@pytest.fixture
def folder(tmp_path, origin):
    (tmp_path / "people.py").write_text(SCRAPER)
    more = 'per_machine = 1\nheartbeat = "1s"\nmetrics = "127.0.0.1:0"'
    told = TOML.replace("per_machine = 1", more) + WATCHED
    (tmp_path / "shoal.toml").write_text(told.format(site=origin.url))
    (tmp_path / "urls.txt").write_text("".join(f"{origin.url}/{number}\n" for number in range(20)))
    return tmp_path


def events(folder):
    """Return the logs of a folder: who wrote, and what."""
    return [
        (file.name, json.loads(line)["event"])
        for file in sorted(folder.rglob("*.log"))
        for line in file.read_text().splitlines()
    ]


async def metrics_url(process):
    async with asyncio.timeout(30):
        while not (found := re.search(rb"http://\S+/metrics", await process.stderr.readline())):
            pass
    return found[0].decode()


@pytest.fixture
async def worker(folder):
    """A machine of the cluster, whatever becomes of the test."""
    process = await start("start", "--role", "worker", folder=folder)
    yield process
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.long
async def test_a_machine_of_a_cluster_counts_all_runs_that_it_serves_and_keeps_their_logs(folder, worker):
    url = await metrics_url(worker)
    for _ in range(2):
        told = await typed("start", "--role", "coordinator", "--json", folder=folder)
        assert told.code == Exit.OK, told.err
    wanted = {
        ("shoal_tasks_total", "done", "page"): 2 * 21,
        ("shoal_tasks_total", "done", "name"): 2 * 2,
        ("shoal_queue_tasks", "pages", "completed"): 21,  # of the newest run
    }
    async with asyncio.timeout(30):
        while not wanted.items() <= sampled(await fetched(url)).items():
            await asyncio.sleep(0.1)
    code, _, err = await ended(worker, signal.SIGTERM)
    assert code == Exit.OK, err
    for scraper in ("pages", "names"):
        told = events(folder / "logs" / scraper)
        assert told.count(("fleet.log", "run begun")) == 2 * 2  # by the coordinator, and by the worker
        assert told.count(("worker-1.log", "worker ended")) == 2


async def test_a_coordinator_says_again_and_again_that_it_is_there(folder, monkeypatch):
    monkeypatch.setattr(cluster_roles, "HEARTBEAT_INTERVAL", timedelta(seconds=0.05))
    monkeypatch.chdir(folder)
    names = load(Project.find(folder), "names")
    url = f"sqlite:///{folder}/queue.db"
    job = Job(scraper=names.scraper, name="names", reference=names.reference, queue_url=url)
    async with open_queue(url) as queue:
        run = await queue.start_run("names")
        await queue.enqueue(run.id, [Task(step="name", payload={"name": "ann"})])
        carrying = asyncio.create_task(Coordinator(OpenedRun(queue, run, job)).carry_out())
        await asyncio.sleep(1)
        beats = [worker for worker in await queue.workers(run.id) if worker.info.get("role")]
        carrying.cancel()
        await asyncio.wait([carrying])
    assert [worker.state for worker in beats] == ["waiting"]
    assert beats[0].last_beat < timedelta(seconds=0.7)


@pytest.fixture
async def app(tmp_path):
    (tmp_path / "people.py").write_text(PEOPLE)
    (tmp_path / "shoal.toml").write_text(PROJECT)
    async with shoal.connect(f"sqlite:///{tmp_path}/queue.db", folder=tmp_path) as app:
        yield app


async def test_the_workers_of_an_app_have_logs_and_metrics(app, origin, tmp_path, caplog):
    plan = LogPlan(folder=tmp_path / "logs", format=LogFormat.JSON)
    urls = [f"{origin.url}/{number}" for number in range(10)]
    with caplog.at_level("INFO", "shoal"):
        run = await app.start("pages", urls=urls, workers=2, logs=plan, metrics="127.0.0.1:0")
    (url,) = re.findall(r"http://\S+/metrics", caplog.text)
    await run.wait(timedelta(minutes=1))
    found = {}
    async with asyncio.timeout(30):
        while ("shoal_queue_tasks", "pages", "completed") not in found:
            found = sampled(await fetched(url))
            await asyncio.sleep(0.1)
    assert sum(count for name, count in found.items() if name[0] == "shoal_tasks_total") == 10
    assert ("fleet.log", "run begun") in events(plan.folder)
    assert {name for name, _ in events(plan.folder)} == {"fleet.log", "worker-1.log", "worker-2.log"}


async def test_logs_and_metrics_of_nobody_are_refused(app):
    with pytest.raises(InvalidInput, match="workers=1"):
        await app.start("pages", metrics="127.0.0.1:0")
    with pytest.raises(InvalidSetting, match="metrics takes HOST:PORT"):
        await app.start("pages", workers=1, metrics="somewhere")
