"""Workers are started while the seeds are enqueued: they load the scraper, and wait until they may begin."""

import asyncio
import os
import signal
import time

import pytest

from shoal.cli.options.workers import read_job
from shoal.core.errors import InvalidTask
from shoal.core.model import Task
from shoal.fleet.run.launch import launch, open_run
from shoal.queue.open import open_queue
from shoal.worker.process.forkserver import ForkServer
from shoal.worker.process.procfs import is_process_running
from shoal.worker.run_settings import FOLLOW_INTERVAL, StoredSettings, write_settings

CODE = """
import os
import sys
from pathlib import Path

plain = Scraper("plain", rate=None, retries=0)
if sys.argv[0] == "shoal.worker.process.main":
    print("a worker has loaded it", flush=True)
    started = Path(__file__).with_name("started")
    with started.open("a") as file:
        file.write(f"{os.getpid()}\\n")

@plain.step(fetch=None)
async def page(task: Task):
    yield {"n": task.payload["n"]}
"""
COUNT = 3


class Seeds:
    """Seeds that come once the workers have loaded the scraper, and what was seen then."""

    def __init__(
        self, bench, queue, run, *, workers=1, on_started=lambda pids: None, meanwhile=None, error=None
    ):
        self._file, self._queue, self._run, self._workers = bench.folder / "started", queue, run, workers
        self._on_started, self._meanwhile, self._error = on_started, meanwhile, error
        self.pids, self.beats = [], None

    async def __aiter__(self):
        yield Task(url="https://a.example/0", step="page", payload={"n": 0})
        async with asyncio.timeout(30):
            while len(self.pids) < self._workers:
                await asyncio.sleep(0.01)
                if self._file.exists():
                    self.pids = [int(line) for line in self._file.read_text().split()]
        self.beats = await self._queue.workers(self._run.id)
        self._on_started(self.pids)
        if self._meanwhile:
            await self._meanwhile(self._queue, self._run)
        if self._error:
            raise self._error
        for number in range(1, COUNT):
            yield Task(url=f"https://a.example/{number}", step="page", payload={"n": number})


async def run_ahead(bench, on_pool=lambda pool: None, code=CODE, **options):
    """Run a scraper whose seeds wait for its workers; return the summary and the seeds."""
    workers = options.get("workers", 1)
    job = read_job(bench.write(code), queue=bench.queue_url, workers=workers)
    async with open_queue(bench.queue_url) as queue, asyncio.timeout(60):
        run = await open_run(queue, job.scraper)
        seeds = Seeds(bench, queue, run, **options)
        try:
            return await launch(queue, job, run, bench.witness, seeds=seeds, on_pool=on_pool), seeds
        except InvalidTask:
            return None, seeds


@pytest.mark.parametrize("workers", [1, 2])
async def test_workers_load_the_scraper_while_the_seeds_are_enqueued(bench, workers):
    summary, seeds = await run_ahead(bench, workers=workers)
    assert summary.snapshot.stats.completed == COUNT and not summary.ending.failures
    assert summary.ending.reasons == ["drained"] * workers
    assert seeds.beats == [], "a worker that waits is not reported as working"
    started = (bench.folder / "started").read_text().split()
    assert len(started) == workers, "those that were started ahead do the work"
    assert bench.witness.printed_lines == ["a worker has loaded it"] * workers


async def test_a_worker_that_dies_while_it_waits_is_replaced(bench):
    summary, _ = await run_ahead(bench, on_started=lambda pids: os.kill(pids[0], signal.SIGKILL))
    assert summary.snapshot.stats.completed == COUNT and not summary.snapshot.stats.dead
    assert len((bench.folder / "started").read_text().split()) == 2
    assert any("starting another" in line for line in bench.witness.said_lines)


async def end_of(pids):
    async with asyncio.timeout(10):
        while any(map(is_process_running, pids)):
            await asyncio.sleep(0.01)


async def test_workers_that_wait_end_when_the_seeds_are_refused(bench):
    summary, seeds = await run_ahead(bench, workers=2, error=InvalidTask("x", "no URL"))
    assert summary is None and len(seeds.pids) == 2
    await end_of(seeds.pids)


async def test_workers_that_wait_end_when_the_run_is_stopped_before_they_begin(bench):
    summary, seeds = await run_ahead(bench, workers=2, on_pool=lambda pool: pool.stop())
    assert summary.snapshot.stats.pending == COUNT and summary.ending.reasons == ["stopped"] * 2
    await end_of(seeds.pids)


async def test_a_worker_that_waits_ends_with_its_launcher(bench):
    """The channel is closed, as when the launcher is killed."""

    def close_channel(pool):
        (worker,) = pool._ahead.values()
        worker.supervisor._starting.result().writer.close()

    summary, seeds = await run_ahead(bench, on_pool=close_channel)
    assert (bench.folder / "started").read_text().split()[0] == str(seeds.pids[0])
    await end_of(seeds.pids)
    assert summary.snapshot.stats.completed == COUNT, "another worker is started"


async def test_settings_that_change_while_the_seeds_are_enqueued_hold_from_the_first_page(bench):
    async def change(queue, run):
        await asyncio.sleep(1.5 * FOLLOW_INTERVAL.total_seconds())  # until a worker has read the old ones
        await write_settings(queue, run.id, StoredSettings(values={"max_pages": 1}))

    summary, _ = await run_ahead(bench, meanwhile=change)
    assert summary.snapshot.stats.completed == 1 and summary.ending.reasons == ["budget"]


WITH_HOOK = f"""{CODE}
@plain.on_start
def connect(resources):
    Path(__file__).with_name("connected").touch()
"""


async def test_hooks_of_the_start_are_called_when_the_seeds_are_enqueued(bench):
    seen = []

    async def look(queue, run):
        await asyncio.sleep(FOLLOW_INTERVAL.total_seconds())  # long enough to call them
        seen.append((bench.folder / "connected").exists())

    summary, _ = await run_ahead(bench, code=WITH_HOOK, meanwhile=look)
    assert summary.snapshot.stats.completed == COUNT
    assert seen == [False] and (bench.folder / "connected").exists()


async def test_a_worker_that_a_killed_fork_server_did_not_report_reads_nothing_of_the_next(
    bench, monkeypatch
):
    forked, spawn = [], ForkServer._spawn

    async def lose_first_report(server, *descriptors):
        worker = await spawn(server, *descriptors)
        forked.append(worker.pid)
        if len(forked) == 1:
            os.kill(server.pid, signal.SIGKILL)
            raise ConnectionError("the fork server has died")
        return worker

    monkeypatch.setattr(ForkServer, "_spawn", lose_first_report)

    def wait_for_its_end(pids):
        deadline = time.monotonic() + 20
        while is_process_running(forked[0]) and time.monotonic() < deadline:
            time.sleep(0.01)
        ended.append(not is_process_running(forked[0]))

    ended = []
    summary, seeds = await run_ahead(bench, on_started=wait_for_its_end)
    assert ended == [True], "it has the channel of the worker that was started in its place"
    assert seeds.pids == forked[1:]
    assert summary.snapshot.stats.completed == COUNT and summary.ending.reasons == ["drained"]
