"""A background task of a launcher that dies is named at once, and is begun again or ends its owner."""

import asyncio
import logging
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from shoal import connect
from shoal.cli.options.workers import read_job
from shoal.core import tasks
from shoal.core.errors import DutyFailed
from shoal.core.model import Task
from shoal.core.tasks import supervise
from shoal.fleet import cluster_roles
from shoal.fleet.cluster_roles import Coordinator
from shoal.fleet.run import pool
from shoal.fleet.run.launch import launch
from shoal.fleet.run.open_run import OpenedRun, open_job
from shoal.fleet.run.results import ResultWriter
from shoal.queue.open import open_queue
from tests.integration.engine.faults import Fault, FaultyQueue

CODE = """
import asyncio

slow = Scraper("slow", retries=0)

@slow.step(fetch=None)
async def page(task: Task):
    await asyncio.sleep(task.payload.get("seconds", 0))
    yield {"n": task.payload["n"]}
"""


class Strange(Exception):
    """An error that no part of Shoal knows."""


def strange():
    return Strange("a bug of the store's driver")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(tasks, "MIN_WAIT", 0.05)


@asynccontextmanager
async def launching(bench, seconds=1.0):
    """Yield a queue whose verbs can fail, a job, and a run of it with three tasks."""
    job = read_job(bench.write(CODE), queue=bench.queue_url)
    async with open_queue(bench.queue_url) as queue, asyncio.timeout(30):
        run = (await open_job(queue, job)).run
        await queue.enqueue(
            run.id, [Task(step="page", payload={"n": n, "seconds": seconds}) for n in range(3)]
        )
        yield FaultyQueue(queue), job, run


async def test_a_look_at_the_progress_that_dies_is_named_and_begun_again(bench):
    async with launching(bench) as (queue, job, run):

        def breaks(*args, **options):
            # The looks before and after the work are the launcher's own.
            return bench.witness.pool is not None and bool(bench.witness.pool.pids)

        queue.faults["run"] = Fault(strange, 1, breaks)
        summary = await supervise(launch(OpenedRun(queue, run, job), bench.witness))
    assert summary.snapshot.stats.completed == 3
    told = [line for line in bench.witness.said_lines if "Reading the run's progress failed: Strange" in line]
    assert len(told) == 1 and bench.witness.snapshots


async def test_a_view_that_dies_is_named_too(bench):
    def breaks(snapshot, pool):
        raise Strange("no terminal")

    bench.witness.on_saw = breaks
    async with launching(bench) as (queue, job, run):
        summary = await supervise(launch(OpenedRun(queue, run, job), bench.witness))
    assert summary.snapshot.stats.completed == 3
    assert any("Strange: no terminal" in line for line in bench.witness.said_lines)


async def test_items_that_cannot_be_followed_are_named_at_once_and_written_at_the_end(
    bench, tmp_path, caplog
):
    place = tmp_path / "items.jsonl"
    async with launching(bench) as (queue, job, run):
        queue.faults["items"] = Fault(strange, 1)
        said = asyncio.create_task(_until_said(caplog, str(place)))
        results = ResultWriter(queue, run.id, str(place))
        summary = await launch(OpenedRun(queue, run, job), bench.witness, results=results)
        assert said.done(), "while the run went on"
    assert summary.snapshot.stats.completed == 3
    assert len(place.read_text().splitlines()) == 3


async def test_items_that_nobody_gets_any_more_end_the_run_by_name(bench, caplog):
    async with launching(bench, seconds=2.0) as (queue, job, run):
        await queue.enqueue(
            run.id, [Task(step="page", payload={"n": n, "seconds": 20}) for n in range(9, 99)]
        )
        queue.faults["items"] = Fault(strange)
        with pytest.raises(Strange):
            await launch(OpenedRun(queue, run, job), bench.witness, results=ResultWriter(queue, run.id, "-"))
    assert "Writing items to - failed: Strange" in caplog.text and "Stopping" in caplog.text


async def test_a_coordinators_heartbeat_that_dies_ends_it_by_name(bench, monkeypatch):
    monkeypatch.setattr(cluster_roles, "HEARTBEAT_INTERVAL", timedelta(seconds=0.05))
    async with launching(bench) as (queue, job, run):
        beats = [0]

        def later(*args, **options):
            beats[0] += 1
            return beats[0] > 3  # the first are marks that it makes itself

        queue.faults["beat"] = Fault(strange, hits=later)
        with pytest.raises(DutyFailed, match="The coordinator's heartbeat failed: Strange"):
            await Coordinator(OpenedRun(queue, run, job)).carry_out()


async def test_a_launcher_whose_look_after_a_worker_dies_ends_by_name(bench, monkeypatch):
    async def dies(self, *args):
        raise Strange("no processes")

    monkeypatch.setattr(pool.WorkerSupervisor, "run", dies)
    async with launching(bench) as (queue, job, run):
        with pytest.raises(DutyFailed, match="Supervising a worker failed: Strange: no processes"):
            await launch(OpenedRun(queue, run, job), bench.witness)


async def test_waiting_for_a_run_fails_when_its_local_workers_have_died(bench, monkeypatch, caplog):
    caplog.set_level(logging.ERROR)

    async def dies(self, *args):
        raise Strange("no processes")

    monkeypatch.setattr(pool.WorkerSupervisor, "run", dies)
    file = bench.write(CODE)
    async with asyncio.timeout(30), connect(bench.queue_url) as app:
        run = await app.start(file, tasks=[Task(payload={"n": 1})], workers=1)
        with pytest.raises(DutyFailed, match="Supervising a worker failed: Strange: no processes"):
            await run.wait()
    assert f"Run {run.id} has no more workers here" in caplog.text


async def _until_said(caplog, words):
    while words not in caplog.text:
        await asyncio.sleep(0.01)
