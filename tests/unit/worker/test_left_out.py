"""What a run leaves out is counted by reason, written soon, and a lower bound if a worker was killed."""

import asyncio
from types import SimpleNamespace

import pytest

from shoal.core.model import ZERO, Done, RunSettings, Task
from shoal.fleet.run.lifecycle import purge
from shoal.fleet.status.at_work import has_lost_counts
from shoal.fleet.status.progress import ProgressReader, snapshot_of, with_details
from shoal.queue.open import open_queue
from shoal.worker.counters import WorkerCounters
from shoal.worker.left_out import MAX_LENGTH, MAX_REASONS, ROBOTS, LeftOutCounts, skip_reason


@pytest.fixture
async def queue(tmp_path):
    async with open_queue(f"sqlite:///{tmp_path}/queue.db") as queue:
        await queue.start_run("books", run_id="r1", settings=RunSettings(host_delay=ZERO, per_host=9))
        await queue.enqueue("r1", [Task(url=f"http://a.example/{number}") for number in range(4)])
        yield queue


@pytest.fixture
async def counts(queue):
    tally = WorkerCounters()
    counts = LeftOutCounts(queue, SimpleNamespace(examples={}), "r1", "w", tally)
    writing = asyncio.create_task(counts.run())
    async with asyncio.timeout(10):
        while not await has_lost_counts(queue, "r1"):
            await asyncio.sleep(0.01)
    tally.missing = tally.missing.with_one("http://a.example/gone")
    tally.dropped |= {ROBOTS: 1, "out of scope": 7}
    yield counts
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)


async def complete(queue):
    leases = (await queue.claim("w", run_id="r1", limit=9)).leases
    await queue.settle([Done(lease) for lease in leases])


async def test_counts_of_pages_are_written_within_seconds(queue, counts):
    async with asyncio.timeout(10):
        while (snapshot := await ProgressReader(queue, "r1").read(last=True)).missing.count == 0 or (
            ROBOTS not in snapshot.not_followed
        ):
            await asyncio.sleep(0.05)
    await complete(queue)
    assert (await ProgressReader(queue, "r1").read(last=True)).pages == 2


async def test_the_counts_of_a_run_whose_worker_was_killed_are_lower_bounds(queue, counts):
    await complete(queue)
    snapshot = await ProgressReader(queue, "r1").read(last=True)
    assert snapshot.lost_counts and snapshot.as_json()["lost_counts"] is True
    await purge(queue, "r1")
    assert not await has_lost_counts(queue, "r1")


async def test_the_counts_of_a_stopped_run_are_lower_bounds_in_every_report(queue, counts):
    run, stats = await queue.run("r1"), await queue.stats("r1")
    assert stats.remaining
    stopped = await with_details(queue, await snapshot_of(queue, run, stats, at_work=False))
    assert stopped.lacks_workers and stopped.lost_counts
    running = await with_details(queue, await snapshot_of(queue, run, stats, at_work=True))
    assert not running.lost_counts, "its workers still write them"


async def test_a_worker_that_ends_has_lost_nothing(queue, counts):
    await counts.write_last()
    await complete(queue)
    snapshot = await ProgressReader(queue, "r1").read(last=True)
    assert not snapshot.lost_counts
    assert (snapshot.missing.count, snapshot.not_followed["out of scope"].count) == (1, 7)


async def test_a_worker_that_still_works_has_lost_nothing(queue, counts):
    await queue.beat("w", run_id="r1")
    assert not await has_lost_counts(queue, "r1")
    await queue.beat("w", run_id="r1", state="died")
    assert await has_lost_counts(queue, "r1")


def test_a_reason_is_one_short_printable_line():
    assert skip_reason("sold\n out\x1b", {}) == "skipped: sold out\ufffd"
    assert len(skip_reason("x" * 1000, {})) == len("skipped: ") + MAX_LENGTH


def test_after_many_reasons_new_ones_share_a_name():
    counted = {"out of scope": 1} | {skip_reason(f"reason {n}", {}): 1 for n in range(MAX_REASONS)}
    assert skip_reason("one more", counted) == "skipped: other reasons"
    assert skip_reason("reason 3", counted) == "skipped: reason 3"
