"""`--concurrency N`: never more than N requests in flight and N steps that run, however long they take."""

import asyncio
import time

import pytest

from shoal import Page, Scraper, Task
from shoal.queue.open import open_queue
from shoal.worker import slots, worker
from shoal.worker.ipc.protocol import LeasesClaimed
from tests.integration.engine.faults import Web, scene
from tests.integration.engine.origin import Answer

LONG = 0.3  # seconds, longer than what counts as slow
URLS = [f"http://a{number}.example/" for number in range(16)]


class Counter:
    """How many are at it now, how many were at most, and how many have begun."""

    def __init__(self):
        self.now = self.most = self.begun = 0

    def __enter__(self):
        self.begun += 1
        self.now += 1
        self.most = max(self.most, self.now)

    def __exit__(self, *error):
        self.now -= 1


@pytest.fixture
async def queue(bench):
    async with open_queue(bench.queue_url) as queue:
        yield queue


@pytest.fixture
def running():
    return Counter()


@pytest.fixture
def jobs(running):
    """A scraper whose steps take their time: one for payloads, one for pages, one that blocks a thread."""
    jobs = Scraper("jobs", rate=None, robots=False, per_host=100)

    @jobs.step(fetch=None)
    async def job(task: Task):
        with running:
            await asyncio.sleep(LONG)

    @jobs.step
    async def page(page: Page):
        with running:
            await asyncio.sleep(LONG)

    @jobs.step(fetch=None)
    def thread(task: Task):
        with running:
            time.sleep(LONG)

    return jobs


@pytest.mark.parametrize(("step", "concurrency"), [("job", 1), ("page", 4), ("thread", 4)])
async def test_no_more_steps_run_than_there_may_be_at_once(queue, jobs, running, step, concurrency):
    tasks = [Task(url=url if step == "page" else None, payload={"u": url}, step=step) for url in URLS]
    tasks = tasks[: 2 * concurrency + 2]
    async with scene(queue, jobs, tasks=tasks, concurrency=concurrency) as here, asyncio.timeout(30):
        assert await here.worker.run() == "drained"
        assert (await queue.stats(here.run.id)).completed == len(tasks)
    assert running.most == concurrency


async def test_no_more_requests_are_in_flight_than_there_may_be_at_once(queue, jobs, running):
    tasks = [Task(url=url, step="page") for url in URLS[:10]]
    web = Web(seconds=LONG)
    async with scene(queue, jobs, tasks=tasks, web=web, concurrency=4) as here, asyncio.timeout(30):
        assert await here.worker.run() == "drained"
    assert web.most == 4 and running.most <= 4


async def test_requests_to_slow_hosts_may_wait_beside_them_and_their_steps_may_not(
    queue, jobs, running, monkeypatch
):
    monkeypatch.setattr(slots, "CONCURRENCY", 2)
    monkeypatch.setattr(slots, "MAX_SLOW", 6)
    tasks, web = [Task(url=url, step="page") for url in URLS], Web(seconds=2 * LONG)
    async with scene(queue, jobs, tasks=tasks, web=web) as here, asyncio.timeout(30):
        assert await here.worker.run() == "drained"
    assert 2 < web.most <= 2 + 6
    assert running.most == 2


async def test_a_worker_with_long_steps_leaves_the_rest_to_others(queue, jobs, running, monkeypatch):
    monkeypatch.setattr(slots, "HORIZON", 2 * LONG)
    tasks = [Task(payload={"u": url}, step="job") for url in URLS[:8]]
    async with scene(queue, jobs, tasks=tasks, concurrency=1, batch=50) as here, asyncio.timeout(30):
        working = asyncio.create_task(here.worker.run())
        ahead = set()
        while not working.done():
            # Not those whose step is over: on a busy machine several may be on their way to the queue.
            ahead.add(here.ledger.claimed - running.begun)
            await asyncio.sleep(0.01)
        assert await working == "drained"
    assert max(ahead) <= 1 + 2, "one whose step is about to begin, and two ahead"


SLOW_PAGES = """
slow = Scraper("slow", rate=None, robots=False, per_host=100)

@slow.step
async def page(page: Page):
    yield {"url": page.url}
"""


def most_overlapping(spans):
    """Return how many of these spans overlap at most."""
    edges = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    now = most = 0
    for _, change in edges:
        now += change
        most = max(most, now)
    return most


async def test_a_run_keeps_to_what_was_typed(bench, origin):
    origin.answer = lambda path: Answer(after=LONG)
    urls = [f"{origin.url}/{number}" for number in range(12)]
    summary = await bench.run(SLOW_PAGES, urls, concurrency=2)
    assert summary.snapshot.stats.completed == 12
    # A host is certain of a request from its arrival to its response.
    assert most_overlapping([(moment, moment + LONG) for moment, _ in origin.moments]) <= 2


async def test_a_worker_that_holds_too_much_has_another_one_woken_for_the_hosts_that_it_served(queue):
    polite, reported = Scraper("polite", delay=0.1, robots=False), []

    @polite.step
    async def page(page: Page):
        pass

    urls = [f"http://{host}.example/{number}" for host in "ab" for number in range(2)]
    async with scene(queue, polite, urls, web=Web(2 * worker.MAX_FULL_SECONDS), concurrency=1) as stage:
        send = stage.ledger.send

        def listen(message):
            if isinstance(message, LeasesClaimed) and message.is_full and not message.leases:
                reported.append(stage.worker.in_hand)
            send(message)

        stage.ledger.send = listen
        await stage.worker.run()
    assert reported and all(reported), "it held leases whenever it reported more"
