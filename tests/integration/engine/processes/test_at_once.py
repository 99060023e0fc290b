"""`--at-once N`: never more than N requests in flight and N steps that run, however long they take."""

import asyncio
import time

import pytest

from shoal import Page, Scraper, Task
from shoal.queue.open import open_queue
from shoal.worker import slots
from shoal.worker.ipc.protocol import LeasesClaimed
from tests.cases import long
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


@pytest.mark.parametrize("at_once", [4, *long(1)])
@pytest.mark.parametrize("step", ["job", "page", "thread"])
async def test_no_more_steps_run_than_there_may_be_at_once(queue, jobs, running, step, at_once):
    tasks = [Task(url=url if step == "page" else None, payload={"u": url}, step=step) for url in URLS]
    tasks = tasks[: 2 * at_once + 2]
    async with scene(queue, jobs, tasks=tasks, at_once=at_once) as here, asyncio.timeout(30):
        assert await here.worker.run() == "drained"
        assert (await queue.stats(here.run.id)).completed == len(tasks)
    assert running.most == at_once


@pytest.mark.parametrize("at_once", [1, 4])
async def test_no_more_requests_are_in_flight_than_there_may_be_at_once(queue, jobs, running, at_once):
    tasks = [Task(url=url, step="page") for url in URLS[: 2 * at_once + 2]]
    web = Web(seconds=LONG)
    async with scene(queue, jobs, tasks=tasks, web=web, at_once=at_once) as here, asyncio.timeout(30):
        assert await here.worker.run() == "drained"
    assert web.most == at_once and running.most <= at_once


async def test_requests_to_slow_hosts_may_wait_beside_them_and_their_steps_may_not(queue, jobs, running):
    tasks = [Task(url=url, step="page") for url in URLS]
    web, beside = Web(seconds=2 * LONG), {"at_once": 2, "slow_requests": 6}
    async with scene(queue, jobs, tasks=tasks, web=web, **beside) as here, asyncio.timeout(30):
        assert await here.worker.run() == "drained"
    assert 2 < web.most <= 2 + 6
    assert running.most == 2


async def test_a_worker_with_long_steps_leaves_the_rest_to_others(queue, jobs, running, monkeypatch):
    monkeypatch.setattr(slots, "HORIZON", 2 * LONG)
    tasks = [Task(payload={"u": url}, step="job") for url in URLS[:8]]
    async with scene(queue, jobs, tasks=tasks, at_once=1, batch=50) as here, asyncio.timeout(30):
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


def most_at_once(spans):
    """Return how many of these spans overlap at most."""
    edges = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    now = most = 0
    for _, change in edges:
        now += change
        most = max(most, now)
    return most


@pytest.mark.parametrize(("more", "bound"), [({}, 2), ({"slow_requests": 3}, 5)])
async def test_a_run_keeps_to_what_was_typed(bench, origin, more, bound):
    origin.answer = lambda path: Answer(after=LONG)
    urls = [f"{origin.url}/{number}" for number in range(12)]
    summary = await bench.run(SLOW_PAGES, urls, at_once=2, **more)
    assert summary.snapshot.stats.completed == 12
    # A host is certain of a request from its arrival to its response.
    assert most_at_once([(moment, moment + LONG) for moment, _ in origin.moments]) <= bound


async def test_a_worker_that_holds_too_much_has_another_one_woken_for_the_hosts_that_it_served(queue):
    polite, reported = Scraper("polite", delay=0.1, robots=False), []

    @polite.step
    async def page(page: Page):
        pass

    urls = [f"http://{host}.example/{number}" for host in "ab" for number in range(2)]
    async with scene(queue, polite, urls, web=Web(LONG), at_once=1) as stage:
        send = stage.ledger.send

        def listen(message):
            if isinstance(message, LeasesClaimed) and message.is_full and not message.leases:
                reported.append(stage.worker.in_hand)
            send(message)

        stage.ledger.send = listen
        await stage.worker.run()
    assert reported and all(reported), "it held leases whenever it reported more"
