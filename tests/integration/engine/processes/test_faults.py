"""An error that a queue's verb raises, whichever and wherever, is got over or ends the worker by its name."""

import asyncio
import re
from datetime import timedelta
from pathlib import Path

import pytest

import shoal.worker
from shoal import Page, Scraper
from shoal.core.errors import NoProxyLeft, QueueError, QueueFull, QueueReadOnly, ShoalError
from shoal.core.model import SECOND, Done
from shoal.queue.contract import Queue
from shoal.queue.open import open_queue
from shoal.worker import left_out, queue_retry, settlements, turns
from shoal.worker.worker import Stop
from tests.cases import long
from tests.integration.engine.faults import Fault, Web, scene

TESTS = Path(__file__).parents[3]
PAGES = 30
URLS = [f"http://a{number % 5}.example/{number}" for number in range(PAGES)]
VERBS = ("claim", "settle", "stats", "notes", "write_notes", "swap_note")
# The tests that let the other verbs fail which workers and their supervisors call.
ELSEWHERE = {
    "finish": "integration/engine/processes/test_faults.py",
    "take_turn": "integration/engine/processes/test_faults.py",
    "hosts": "unit/worker/failures/test_private_hosts.py",
    "resume": "integration/engine/runs/test_page_limit.py",
    "run": "unit/core/test_repeat.py",
    "trim_notes": "unit/fetch/cache/test_queue_store.py",
    "extend": "unit/worker/process/test_supervisor.py",
    "extend_worker": "unit/worker/process/test_supervisor.py",
    "beat": "integration/engine/processes/test_supervisors.py",
    "beat_together": "unit/worker/process/test_heartbeat.py",
    "abandon": "integration/engine/processes/test_supervisors.py",
}
IN_COMMANDS = {"dead"}  # called in this folder by commands only, which raise the error

plain = Scraper("plain", rate=None, robots=False, max_pages=10_000)


@plain.step
async def page(page: Page):
    yield {"url": page.url}


class Strange(Exception):
    """An error that no part of Shoal knows."""


def strange():
    return Strange("a bug of the store's driver")


def unknown():
    return QueueError("The queue at here failed: XX000")


def full():
    return QueueFull("here", "its disk is full")


def read_only():
    return QueueReadOnly("here", "this server is a replica")


@pytest.fixture
async def queue(bench):
    # Faults are raised in front of the store, so it makes no difference to what a worker does about them.
    async with open_queue(bench.queue_url) as queue:
        yield queue


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Let what a worker does every few seconds come at once."""
    monkeypatch.setattr(left_out, "TRAPS_INTERVAL", timedelta(seconds=0.01))
    monkeypatch.setattr(queue_retry, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(queue_retry, "MAX_WAIT", 0.2)


@pytest.mark.parametrize("times", [1, *long(float("inf"))])
@pytest.mark.parametrize("verb", VERBS)
async def test_a_verb_that_fails_is_got_over_or_ends_the_worker_by_its_name(queue, verb, times):
    async with scene(queue, plain, URLS) as here, asyncio.timeout(30):
        here.queue.faults[verb] = Fault(strange if times == 1 else unknown, times)
        try:
            assert await here.worker.run() == "drained"
        except (ShoalError, Strange):
            assert here.queue.failed.is_set()
            return
        assert len(await here.items()) == PAGES


def test_every_verb_that_a_worker_calls_is_made_to_fail_by_a_test():
    folder = Path(shoal.worker.__file__).parent
    named = {
        name for file in folder.rglob("*.py") for name in re.findall(r"queue\.(\w+)\(", file.read_text())
    }
    called = {name for name in named if hasattr(Queue, name)} - IN_COMMANDS
    assert called == {*VERBS, *ELSEWHERE} & called, sorted(called - {*VERBS, *ELSEWHERE})
    assert all((TESTS / where).exists() for where in ELSEWHERE.values())


@pytest.mark.parametrize(("error", "times"), [(unknown, 1), (full, 3)], ids=["unknown", "full"])
async def test_a_run_at_its_limit_ends_although_the_first_report_failed(queue, error, times):
    async with scene(queue, plain.replace(max_pages=10), URLS) as here, asyncio.timeout(30):
        here.queue.faults["finish"] = Fault(error, times)
        await here.worker.run()
        assert here.queue.calls["finish"] == times + 1
        assert len(await here.items()) == 10
        assert (await queue.run(here.run.id)).state.has_ended


asking = Scraper("asking", rate="100/s", robots=False, retries=0)


@asking.step
async def asks(page: Page):
    answer = await page.request("http://b.example/more")
    yield {"url": page.url, "more": answer.url}


@pytest.mark.parametrize("verb", ["notes", "swap_note", "take_turn"])
async def test_a_queue_that_gives_a_request_no_turn_costs_its_task_no_attempt(queue, verb, monkeypatch):
    monkeypatch.setattr(turns, "OUTAGE_WAIT", timedelta(0))

    def is_turn(topic, *args, **options):
        return topic in (turns.SLOTS, "b.example")

    async with scene(queue, asking, URLS[:1]) as here, asyncio.timeout(30):
        here.queue.faults[verb] = Fault(full, 2, hits=is_turn)
        assert await here.worker.run() == "drained"
        assert here.queue.failed.is_set()
        assert len(await here.items()) == 1
        assert [letter async for letter in queue.dead(here.run.id)] == []


async def test_nothing_is_claimed_while_no_proxy_is_left_and_the_releases_leave_no_trace(postgres_url):
    class Benched(Web):
        async def fetch(self, request):
            self.asked[request.url] += 1
            raise NoProxyLeft("every proxy is benched", 2 * SECOND)

    urls = [f"http://host-{number}.example/" for number in range(1_000)]
    async with (
        asyncio.timeout(30),
        open_queue(postgres_url) as queue,
        scene(queue, plain, urls, web=Benched()) as here,
    ):
        working = asyncio.create_task(here.worker.run())
        while not here.web.asked:
            await asyncio.sleep(0.01)
        await asyncio.sleep(1)  # for the claims that must not come
        claimed = here.ledger.claimed
        here.worker.stop(Stop.RELEASE)
        await working
        assert 0 < claimed < 300
        assert await queue._server.value("SELECT count(*) FROM shoal.attempt") == 0


async def test_one_outcome_that_cannot_be_settled_is_buried_and_stops_no_other(queue):
    def is_bad(outcomes):
        return any(isinstance(one, Done) and one.lease.task.url == URLS[7] for one in outcomes)

    async with scene(queue, plain, URLS) as here, asyncio.timeout(30):
        here.queue.faults["settle"] = Fault(unknown, hits=is_bad)
        assert await here.worker.run() == "drained"
        assert len(await here.items()) == PAGES - 1
        (letter,) = [letter async for letter in queue.dead(here.run.id)]
    assert letter.task.url == URLS[7] and "XX000" in letter.error


async def test_a_worker_that_can_settle_nothing_ends_when_its_leases_would_run_out(queue):
    async with scene(queue, plain, URLS) as here, asyncio.timeout(30):
        here.queue.faults["settle"] = Fault(unknown)
        with pytest.raises(QueueError, match="XX000"):
            await here.worker.run()
        assert len(here.ledger.in_hand) == PAGES, "its supervisor can release them"


@pytest.mark.parametrize(("verb", "error"), [("claim", full), ("settle", read_only), ("stats", full)])
async def test_a_store_that_is_full_or_read_only_is_waited_for_and_that_is_said_once(
    queue, verb, error, caplog
):
    async with scene(queue, plain, URLS) as here, asyncio.timeout(30):
        here.queue.faults[verb] = Fault(error, 5)
        assert await here.worker.run() == "drained"
        assert len(await here.items()) == PAGES
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(said) == 1 and "automatically" in said[0] and "here" in said[0]


async def test_a_worker_that_waits_for_room_can_be_stopped(queue, monkeypatch):
    monkeypatch.setattr(settlements, "MAX_WAITING", 20)
    many = [f"http://a{number % 5}.example/{number}" for number in range(200)]
    async with scene(queue, plain, many) as here, asyncio.timeout(30):
        here.queue.faults["settle"] = Fault(full)
        working = asyncio.create_task(here.worker.run())
        here.queue.on_fault = lambda number: here.worker.stop(Stop.FINISH) if number == 3 else None
        while not here.worker.is_stopping:
            await asyncio.sleep(0.01)
        here.queue.faults.clear()
        assert await working == "stopped"


async def test_no_lease_is_left_behind_by_an_outcome_that_is_buried_in_vain(queue):
    def is_bad(outcomes):
        return any(one.lease.task.url == URLS[7] for one in outcomes)

    async with scene(queue, plain, URLS) as here, asyncio.timeout(30):
        here.queue.faults["settle"] = Fault(unknown, hits=is_bad)
        with pytest.raises(QueueError, match="XX000"):
            await here.worker.run()
        assert [lease.task.url for lease in here.ledger.in_hand.values()] == [URLS[7]]
        assert len(await here.items()) == PAGES - 1


BROKEN_STORE = """
from shoal.core.errors import NoProxyLeft, QueueError, QueueFull
from shoal.queue.sqlite.queue import SqliteQueue

broken = Scraper("broken", rate=None, robots=False, lease="3s")
whole = SqliteQueue.{verb}
left = {times}

@broken.step
async def page(page: Page):
    # Only a worker runs steps: the store stays whole for the launcher.
    async def fails(self, *args, **options):
        global left
        left -= 1
        if left < 0:
            return await whole(self, *args, **options)
        raise {error}

    SqliteQueue.{verb} = fails
    yield {{"url": page.url}}
"""


@pytest.mark.long
async def test_a_worker_process_that_can_settle_nothing_ends_by_name_and_its_leases_go_back(bench, origin):
    code = BROKEN_STORE.format(verb="settle", times=1_000_000, error='QueueError("XX000")')
    async with asyncio.timeout(60):
        summary = await bench.run(code, [f"{origin.url}/{number}" for number in range(20)])
    (failure,) = summary.ending.failures
    assert "could not settle" in failure and "XX000" in failure
    assert (summary.snapshot.stats.leased, summary.snapshot.stats.remaining) == (0, 20)


async def test_a_worker_process_goes_on_when_a_full_store_has_room_again(bench, origin):
    code = BROKEN_STORE.format(verb="claim", times=3, error='QueueFull("here", "its disk is full")')
    urls = [f"{origin.url}/{number}" for number in range(120)]
    async with asyncio.timeout(60):
        summary = await bench.run(code, urls, concurrency=4, batch=4)
    assert summary.snapshot.stats.completed == 120 and not summary.ending.failures
    assert sum("retries automatically" in line for line in bench.witness.printed_lines) == 1
