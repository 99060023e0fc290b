"""Requests that started late are counted by every report of a run, until it is purged."""

from types import SimpleNamespace

import pytest

from shoal.cli.left_out import reservation_lines
from shoal.core.model import ZERO, RunSettings, Task
from shoal.fleet.handle import RunHandle
from shoal.fleet.run.lifecycle import purge
from shoal.fleet.status.progress import ProgressReader, snapshot_of, with_details
from shoal.queue.open import open_queue
from shoal.worker.counters import WorkerCounters
from shoal.worker.left_out.late_starts import describe_late_starts, late_starts
from shoal.worker.skipped_links import SkippedLinkCounts


@pytest.fixture
async def queue(tmp_path):
    async with open_queue(f"sqlite:///{tmp_path}/queue.db") as queue:
        await queue.start_run("books", run_id="r1", settings=RunSettings(host_delay=ZERO))
        await queue.enqueue("r1", [Task(url="http://a.example/")])
        for worker, count in (("w1", 40), ("w2", 2), ("w3", 0)):
            tally = WorkerCounters(late_starts=count)
            await SkippedLinkCounts(queue, SimpleNamespace(examples={}), "r1", worker, tally).write_last()
        yield queue


async def test_the_late_starts_of_all_workers_are_in_the_reports_of_their_run(queue):
    read = await ProgressReader(queue, "r1").read(last=True)
    shown = await with_details(queue, await snapshot_of(queue, await queue.run("r1"), read.stats))
    assert read.late_starts == shown.late_starts == read.as_json()["late_starts"] == 42
    assert reservation_lines(read)[0].startswith("42 requests started late")
    assert await RunHandle(queue, await queue.run("r1")).late_starts() == 42


async def test_a_run_that_is_purged_takes_its_late_starts_with_it(queue):
    await purge(queue, "r1")
    assert await late_starts(queue, "r1") == 0


def test_without_late_starts_there_is_nothing_to_say():
    assert describe_late_starts(0) == ""
    assert (WorkerCounters(late_starts=1) + WorkerCounters(late_starts=2)).late_starts == 3
