"""Workers that freeze and supervisors that fail: other workers to other workers, and it is reported."""

import asyncio
import os
import runpy
import signal
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from shoal.core.errors import DutyFailed
from shoal.core.model import Task
from shoal.fleet.status.overview import worker_row
from shoal.queue.open import open_queue
from shoal.worker.process import supervisor
from shoal.worker.process.supervisor import WorkerLink, WorkerSupervisor
from tests.integration.engine.origin import Answer
from tests.servers.process import free_port

healthy = runpy.run_path(str(Path(__file__).parents[4] / "deploy" / "docker" / "healthy.py"))
trouble = healthy["trouble"]
SCRAPER = """
import time

plain = Scraper("plain", rate=None, robots=False, retries=0, {settings})

@plain.step
async def page(page: Page):
    yield {{"url": page.url}}
"""


def urls(origin, count):
    return [f"{origin.url}/{number}" for number in range(count)]


async def paths(bench, summary):
    return Counter(int(item["url"].rpartition("/")[2]) for item in await bench.items(summary.run.id))


def freeze_one(bench, origin):
    """Stop one worker while it fetches its first pages; return the list that its pid is added to."""
    frozen = []

    def freeze(path, head):
        # At a request, not at a look: a busy machine may look at a short run for the first time when it ends.
        if not frozen and len(origin.visits) > 5 and (pids := bench.witness.pool.pids):
            frozen.append(pids[0])
            os.kill(frozen[0], signal.SIGSTOP)

    origin.on_head = freeze
    return frozen


async def test_a_stopped_worker_is_ended_within_its_lease_and_the_others_have_its_hosts(bench, origin):
    origin.answer = lambda path: Answer(after=0.05)
    frozen = freeze_one(bench, origin)
    code = SCRAPER.format(settings="per_host=4, lease='6s', timeout='5s'").replace("retries=0, ", "")
    async with asyncio.timeout(60):
        summary = await bench.run(code, urls(origin, 150), workers=2)
    assert frozen
    (death,) = [line for line in bench.witness.said_lines if "frozen" in line]
    assert death.startswith("A worker was killed, because it was frozen for ")
    assert await paths(bench, summary) == Counter(range(150)) and not summary.snapshot.stats.dead


@pytest.mark.long
async def test_while_a_worker_is_frozen_its_state_says_so_and_the_health_check_of_a_container_fails(
    bench, origin
):
    origin.answer = lambda path: Answer(after=0.1)
    frozen, port = freeze_one(bench, origin), free_port()
    code, long = SCRAPER.format(settings="lease='8s', per_host=4"), urls(origin, 600)
    options = {"metrics": ("127.0.0.1", port), "workers": 2, "run_id": "cold"}
    summary = asyncio.create_task(bench.run(code, long, **options))
    said, states = [], set()
    async with asyncio.timeout(90), open_queue(bench.queue_url) as queue:
        while not summary.done():
            said.append(await asyncio.to_thread(trouble, port, "/healthz"))
            if frozen:
                states |= {worker_row(worker).state for worker in await queue.workers("cold")}
            await asyncio.sleep(0.2)
        await summary
    # On a busy machine the other worker may be late for a moment too, and is named with it.
    first = said.index(f"port {port} answers 503: Workers that do not respond: process {frozen[0]}.")
    # Before, and again when another has taken its place.
    assert None in said[:first] and None in said[first:]
    assert "frozen" in states


@pytest.mark.alone
async def test_a_page_made_to_hang_the_search_for_block_pages_costs_its_own_task_only(bench, origin):
    """Expressions that can do so are rejected; this is for those that are slow without looking like it.

    Without a retry: the leases of a claim that was answered after the loop hung must not be lost either.
    """
    origin.answer = lambda path: Answer("hang" if path == "/7" else "fine")
    code = (
        SCRAPER.format(settings="lease='3s'")
        + """
class Slow:
    def search(self, text):
        if text == "hang":
            time.sleep(1000)

object.__setattr__(plain.settings, "block", Slow())
"""
    )
    async with asyncio.timeout(60):
        summary = await bench.run(code, urls(origin, 20))
    assert await paths(bench, summary) == Counter(set(range(20)) - {7})
    (letter,) = await bench.dead(summary.run.id)
    assert letter.task.url.endswith("/7") and "timed out after 3 s" in letter.error


async def test_a_function_for_proxies_that_hangs_keeps_no_run_from_ending(bench, origin):
    code = """
    import threading
    calls = []
    def proxies():
        calls.append(1)
        if len(calls) > 1:
            threading.Event().wait()
        return ["http://127.0.0.1:1"]
    plain = Scraper("plain", rate=None, robots=False, fetch=None, proxies={"from": proxies, "refresh": "1s"})

    @plain.step
    async def page(task: Task):
        import asyncio
        await asyncio.sleep(2)
        yield {"url": task.url}
    """
    async with asyncio.timeout(30):
        summary = await bench.run(code, urls(origin, 4))
    assert summary.snapshot.stats.completed == 4 and summary.ending.reasons == ["drained"]


async def test_a_worker_that_hangs_when_all_is_done_is_ended_and_has_ended_well(bench, origin, monkeypatch):
    monkeypatch.setattr(supervisor, "CLOSE_TIMEOUT", timedelta(seconds=0.5))
    code = (
        SCRAPER.format(settings="")
        + """
if __import__("sys").argv[0] == "shoal.worker.process.main":
    from shoal.fetch.http.client import RedirectingClient
    async def close(self):
        time.sleep(1000)
    RedirectingClient.close = close
"""
    )
    async with asyncio.timeout(30):
        summary = await bench.run(code, urls(origin, 4))
    assert summary.ending.reasons == ["drained"] and not summary.ending.failures
    assert not bench.witness.said_lines


@pytest.mark.long
async def test_no_healthy_worker_is_ended_however_often_its_steps_are_resumed(bench, monkeypatch):
    """Each resumption writes a marker, and the supervisors here read the markers all the time."""
    monkeypatch.setattr(supervisor, "SAMPLE_INTERVAL_SECONDS", 0.0005)
    code = """
    import asyncio
    busy = Scraper("busy", rate=None, fetch=None, retries=0)

    @busy.step
    async def work(task: Task):
        for _ in range(400):
            await asyncio.sleep(0)
        yield {"key": task.key}
    """
    tasks = [Task(step="work", key=str(number)) for number in range(400)]
    async with asyncio.timeout(120):
        summary = await bench.run(code, tasks, workers=2)
    assert (summary.snapshot.stats.completed, summary.snapshot.stats.dead) == (400, 0)
    assert not bench.witness.said_lines and bench.witness.pool.restarts == 0


BACKGROUND_TASKS = {
    "_renew_leases": "renewing its leases",
    "_read_output": "reading its output",
    "_listen": "reading its messages",
}


def fail(monkeypatch, method, times):
    """Let a background task of supervisors fail this often."""
    owner = WorkerLink if method == "_read_output" else WorkerSupervisor
    real, failed = getattr(owner, method), []

    async def broken(self, *args):
        if len(failed) < times:
            failed.append(1)
            raise TypeError("an unknown fault")
        await real(self, *args)

    monkeypatch.setattr(owner, method, broken)


@pytest.mark.parametrize("method", BACKGROUND_TASKS)
async def test_a_duty_of_a_supervisor_that_fails_is_reported_and_another_worker_takes_over(
    bench, origin, monkeypatch, method
):
    fail(monkeypatch, method, 1)
    async with asyncio.timeout(60):
        summary = await bench.run(SCRAPER.format(settings=""), urls(origin, 10))
    assert await paths(bench, summary) == Counter(range(10))
    why = f"{BACKGROUND_TASKS[method]} failed: TypeError: an unknown fault"
    assert f"A worker was killed, because {why}; starting another." in bench.witness.said_lines


async def test_a_duty_that_fails_every_time_ends_the_pool_with_its_reason(bench, origin, monkeypatch):
    monkeypatch.setattr("shoal.fleet.run.pool.MIN_RESTART_DELAY_SECONDS", 0.01)
    fail(monkeypatch, "_watch", 1_000)
    async with asyncio.timeout(60):
        summary = await bench.run(SCRAPER.format(settings=""), urls(origin, 3))
    assert summary.ending.failed
    assert "watching its steps failed: TypeError: an unknown fault" in summary.ending.failures[0]
    assert "in broken" in summary.ending.failures[0], "the traceback's last lines"


async def broken(*args, **options):
    raise TypeError("an unknown fault")


async def test_a_plan_of_partitions_that_cannot_be_kept_ends_the_pool_with_its_reason(
    bench, origin, monkeypatch
):
    monkeypatch.setattr("shoal.fleet.partitions.membership.Membership._register", broken)
    with pytest.raises(DutyFailed, match="assigning partitions failed: TypeError: an unknown fault"):
        async with asyncio.timeout(60):
            await bench.run(SCRAPER.format(settings=""), urls(origin, 3), partitions=["auto"])


async def test_a_lock_that_can_no_longer_be_held_stops_its_pool_and_is_reported(bench, origin, monkeypatch):
    monkeypatch.setattr("shoal.fleet.lock.RENEW_INTERVAL", timedelta(seconds=0.1))
    monkeypatch.setattr("shoal.fleet.lock.ScraperLock._renew", broken)
    origin.answer = lambda path: Answer(after=0.1)
    with pytest.raises(DutyFailed, match="the scraper's lock failed: TypeError: an unknown fault"):
        async with asyncio.timeout(60):
            await bench.run(SCRAPER.format(settings="per_host=1"), urls(origin, 600))
    assert sum(origin.visits.values()) < 600


async def test_leases_of_a_dead_worker_that_cannot_be_released_are_reported(bench, origin, monkeypatch):
    monkeypatch.setattr("shoal.fleet.run.pool.release_leases", broken)
    monkeypatch.setattr("shoal.fleet.run.pool.LATE_CLAIM_DELAYS", (0.01,))
    origin.answer = lambda path: Answer(after=0.05)
    killed = []

    def kill(snapshot, pool):
        if not killed and origin.visits and pool.pids:
            killed.append(os.kill(pool.pids[0], signal.SIGKILL))

    bench.witness.on_saw = kill
    summary = await bench.run(SCRAPER.format(settings="per_host=4"), urls(origin, 100))
    assert await paths(bench, summary) == Counter(range(100))
    fault = "Releasing the leases of a dead worker failed: TypeError: an unknown fault. They will expire."
    assert fault in bench.witness.said_lines
