"""A cached page does not wait for its host, and does not count as a request."""

from datetime import timedelta

import pytest

from shoal import Page, Scraper
from shoal.core.http import Response
from shoal.core.model import MINUTE, ZERO, Done, Release, Task
from shoal.fetch.cache.fetcher import CachingFetcher
from shoal.fetch.cache.store import DiskStore
from shoal.worker.attempts import ProcessorTools, TaskWaits
from shoal.worker.counters import WorkerCounters
from shoal.worker.prefetch import ScheduledLease
from shoal.worker.processor import TaskProcessor
from shoal.worker.scheduler import Scheduler
from shoal.worker.slots import MemoryLimit
from tests.unit.builders import make_lease, make_run

URL = "https://shop.test/"

shop = Scraper("shop", robots=False)


@shop.step
async def page(page: Page):
    yield {"body": page.body.decode()}


class Host:
    def __init__(self):
        self.requests = 0

    async def fetch(self, request):
        self.requests += 1
        return Response(url=request.url, status=200, body=b"%d" % self.requests)

    async def close(self):
        pass


@pytest.fixture
def host():
    return Host()


@pytest.fixture
def process(host, markers, threads, tmp_path):
    """Process the page once, on time or too late; return the outcome and the counters."""
    cache = CachingFetcher(
        host, DiskStore(tmp_path, max_bytes=1 << 20), user_agent="shoal", lifetime=timedelta(hours=1)
    )
    run = make_run(settings=shop.run_settings())

    async def handle(*, on_time=True, attempt=1, robots=None, only_look_up=False, lookup=None, memory=None):
        tally = WorkerCounters()
        scheduler = Scheduler(lease=MINUTE, gap=ZERO, concurrency=1)
        scheduler.try_request = lambda start, now: on_time
        waits = TaskWaits(scheduler)
        waits.memory = memory or waits.memory
        tools = ProcessorTools({"http": cache}, robots, threads, markers)
        processor = TaskProcessor(
            shop,
            run,
            tools,
            tally,
            waits=waits,
        )
        lease = make_lease(Task(url=URL, step="page"), task_id="0" * 32, attempt=attempt)
        if only_look_up:
            assert processor.may_be_cached(lease)
            return await processor.look_up(lease, 1), tally
        return await processor.process(ScheduledLease(lease, 0.0), 1, lookup), tally

    return handle


async def test_a_page_that_is_not_cached_must_be_on_time(process, host):
    outcome, _ = await process(on_time=False)
    assert isinstance(outcome, Release) and host.requests == 0


async def test_a_cached_page_is_never_too_late(process, host):
    await process()
    outcome, tally = await process(on_time=False)
    assert isinstance(outcome, Done) and outcome.items == [{"body": "1"}]
    assert (tally.from_cache, tally.not_cached, host.requests) == (1, 0, 1)


async def test_only_a_page_that_was_looked_up_and_then_requested_is_a_miss(process):
    _, late = await process(on_time=False)
    _, first = await process()
    _, retried = await process(attempt=2)
    assert (late.not_cached, first.not_cached, retried.not_cached) == (0, 1, 0)


async def test_a_retried_task_fetches_the_page_again(process, host):
    await process()
    outcome, tally = await process(attempt=2)
    assert (outcome.items, tally.from_cache, host.requests) == ([{"body": "2"}], 0, 2)
    outcome, _ = await process()
    assert outcome.items == [{"body": "2"}]


async def test_an_outcome_says_whether_a_request_was_sent(process):
    assert (await process())[0].asked
    assert not (await process())[0].asked
    assert (await process(attempt=2))[0].asked


async def test_a_task_that_came_too_late_has_used_its_turn(process):
    outcome, _ = await process(on_time=False)
    assert isinstance(outcome, Release) and outcome.asked


class Rules:
    """A robots.txt that allows everything, and may have to be fetched first."""

    def __init__(self, known):
        self.known, self.requests = known, 0

    async def recall(self, url):
        return self.known

    def is_fetching(self, url):
        return False

    async def check(self, url):
        self.requests += not self.known

    def crawl_delay(self, url):
        return None


@pytest.mark.parametrize("known", [True, False])
async def test_a_cached_page_whose_robots_txt_was_fetched_counts_as_a_request(process, known):
    await process()
    rules = Rules(known)
    outcome, tally = await process(robots=rules)
    assert (tally.from_cache, outcome.asked, rules.requests) == (1, not known, int(not known))


async def test_a_lookup_before_the_start_finds_the_page_without_a_request(process, host):
    await process()
    lookup, tally = await process(only_look_up=True)
    assert lookup.page.body == b"1" and host.requests == 1
    outcome, tally = await process(lookup=lookup, on_time=False)
    assert (outcome.items, outcome.asked, tally.from_cache) == ([{"body": "1"}], False, 1)


async def test_a_lookup_before_the_start_does_not_fetch_robots_txt(process):
    await process()
    rules = Rules(known=False)
    lookup, _ = await process(only_look_up=True, robots=rules)
    assert lookup is None and rules.requests == 0


async def test_a_page_that_a_lookup_has_found_takes_memory_until_it_is_released(process):
    await process()
    memory = MemoryLimit()
    await process(only_look_up=True, memory=memory)
    assert memory.used == 1
    await process(lookup=(await process(only_look_up=True, memory=memory))[0], memory=memory)
    assert memory.used == 0


async def test_robots_txt_uses_the_turn_of_the_task_that_needs_it(process, host):
    rules = Rules(known=False)
    outcome, _ = await process(robots=rules)
    assert isinstance(outcome, Release) and outcome.asked
    assert (rules.requests, host.requests) == (1, 0)
    outcome, _ = await process(robots=Rules(known=True))
    assert isinstance(outcome, Done) and host.requests == 1


async def test_robots_txt_is_not_fetched_when_the_turn_has_passed(process):
    rules = Rules(known=False)
    outcome, _ = await process(robots=rules, on_time=False)
    assert isinstance(outcome, Release) and rules.requests == 0


async def test_a_task_that_waits_for_the_robots_txt_of_another_keeps_its_own_turn(process, host):
    rules = Rules(known=False)
    rules.is_fetching = lambda url: True
    outcome, _ = await process(robots=rules)
    assert isinstance(outcome, Done) and host.requests == 1
