"""What the workers of a run share: cookie jars, attributes of the spider, and the pace of hosts."""

import asyncio
import time
from collections import defaultdict
from contextlib import asynccontextmanager, contextmanager
from datetime import date, timedelta
from itertools import pairwise

import pytest
import scrapy
from scrapy.http.cookies import CookieJar

from shoal.core.model import RunSettings, Task
from shoal.scrape.requests import OwnStep
from shoal.scrape.scraper import Scraper
from shoal.scrape.settings.sites import SiteTable
from shoal.scrapy.codec import RequestCodec
from shoal.scrapy.pacing import HostPacer
from shoal.scrapy.results import CURRENT, TaskResults
from shoal.scrapy.sharing import MAX_SIZE, SharedAttributes, SharedCookies, VersionedNotes

PAGE = "https://shop.test/1"


def make_jars(queue):
    """Return the jars of a worker, and what shares them."""
    jars = defaultdict(CookieJar)
    return jars, SharedCookies(VersionedNotes(queue, "run"), jars, RequestCodec(Counting()).values)


def set_cookie(worker, name, value, *, jar=None, url=PAGE):
    jars, shared = worker
    request = scrapy.Request(url, meta={"cookiejar": jar} if jar else {})
    response = scrapy.http.Response(url, headers={"Set-Cookie": f"{name}={value}; Path=/"})
    jars[jar].extract_cookies(response, request)
    shared.touch(request, response)


def cookies_of(worker, jar=None):
    return {one.name: one.value for one in worker[0][jar]}


def task_for(url, jar=None):
    return Task(url=url, payload={"url": url, "meta": {"cookiejar": jar}} if jar else {"url": url})


async def test_a_worker_reads_the_cookies_that_the_task_needs(queue):
    login, other = make_jars(queue), make_jars(queue)
    set_cookie(login, "session", "1")
    set_cookie(login, "session", "2", jar="second")
    set_cookie(login, "elsewhere", "3", url="https://other.test/")
    await login[1].write()
    versions = login[1].versions_for(task_for(PAGE)) | login[1].versions_for(task_for(PAGE, "second"))
    assert len(versions) == 2  # not of the other site
    await other[1].read(versions)
    assert (cookies_of(other), cookies_of(other, "second")) == ({"session": "1"}, {"session": "2"})
    set_cookie(login, "session", "1")
    await login[1].write()
    assert login[1].versions_for(task_for(PAGE)).items() <= versions.items()  # nothing has changed


async def test_cookies_that_two_workers_set_at_once_are_both_kept(queue):
    one, other = make_jars(queue), make_jars(queue)
    set_cookie(one, "a", "1")
    set_cookie(other, "b", "2")
    await one[1].write()
    await other[1].write()
    await one[1].read(other[1].versions_for(task_for(PAGE)))
    assert cookies_of(one) == cookies_of(other) == {"a": "1", "b": "2"}


async def test_a_task_names_the_version_that_another_task_of_its_worker_is_writing(queue):
    worker = make_jars(queue)
    set_cookie(worker, "session", "1")
    writing = asyncio.create_task(worker[1].write())
    await asyncio.sleep(0)  # it has begun
    await worker[1].write()
    assert list(worker[1].versions_for(task_for(PAGE)).values()) == [1]
    await writing


async def test_a_task_costs_as_much_however_many_cookies_and_jars_there_are(queue, monkeypatch):
    worker, dumped = make_jars(queue), []
    for number in range(50):
        set_cookie(worker, "a", "1", url=f"https://shop{number}.test/")
        set_cookie(worker, "a", "1", jar=f"jar{number}")
    await worker[1].write()
    dump = worker[1]._dump
    monkeypatch.setattr(worker[1], "_dump", lambda name: dumped.append(name) or dump(name))
    set_cookie(worker, "b", "2")
    await worker[1].write()
    assert len(set(dumped)) <= 4
    assert len(worker[1].versions_for(task_for(PAGE))) == 1


@asynccontextmanager
async def turn_of(pacer, results):
    token = CURRENT.set(results)
    async with pacer.turn(scrapy.Request(PAGE)):
        CURRENT.reset(token)
        yield


async def test_a_task_has_one_turn_from_its_claim_and_its_other_requests_wait(queue):
    gap = 0.2
    pacer = HostPacer(queue, RunSettings(host_delay=timedelta(seconds=gap), per_host=1), SiteTable())
    turns, sent = iter([True, False, False]), []

    async def take_turn():
        return next(turns)

    results = TaskResults("key", scrapy.Request(PAGE), OwnStep(take_turn))
    for _ in range(3):
        async with turn_of(pacer, results):
            sent.append(asyncio.get_running_loop().time())
    assert min(later - earlier for earlier, later in pairwise(sent)) >= 0.95 * gap


async def test_after_a_request_that_was_sent_late_a_turn_that_is_on_time_is_given_up(queue):
    gap = 0.2
    pacer = HostPacer(queue, RunSettings(host_delay=timedelta(seconds=gap), per_host=2), SiteTable())

    async def take_turn():
        return True

    async def send(key):
        async with turn_of(pacer, TaskResults(key, scrapy.Request(PAGE), OwnStep(take_turn))):
            # What the loop does before it writes the request.
            asyncio.get_running_loop().call_soon(time.sleep, gap)
            await asyncio.sleep(0)
            return asyncio.get_running_loop().time()

    first, second = await send("1"), await send("2")
    assert second - first >= 0.95 * gap


async def test_requests_within_tasks_are_bounded_by_the_limit_of_the_host(queue):
    pacer = HostPacer(queue, RunSettings(host_delay=timedelta(0), per_host=2), SiteTable())
    most = inside = 0

    async def send():
        nonlocal most, inside
        async with turn_of(pacer, None):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.01)
            inside -= 1

    await asyncio.gather(*(send() for _ in range(8)))
    assert most == 2


async def test_the_delay_of_a_site_holds_within_tasks_and_no_wait_takes_time_of_the_step(queue):
    suspended = []

    @contextmanager
    def suspend():
        suspended.append("began")
        yield
        suspended.append("ended")

    sites = Scraper("a").replace(delay=0, sites={"shop.test": {"delay": 0.2}}).settings.sites
    pacer = HostPacer(queue, RunSettings(host_delay=timedelta(0)), sites)
    results, sent = TaskResults("key", None, OwnStep(suspend=suspend)), []
    for _ in range(2):
        async with turn_of(pacer, results):
            assert suspended.pop() == "ended"
            sent.append(asyncio.get_running_loop().time())
    assert sent[1] - sent[0] >= 0.95 * 0.2


@pytest.mark.parametrize(
    ("header", "seconds"), [("7", 7), ("Wed, 18 Feb 2026 10:00:30 GMT", 30), ("soon", 1), ("999999", 3600)]
)
async def test_a_host_that_sends_503_pauses_for_as_long_as_it_says(queue, header, seconds):
    headers = {"Retry-After": header, "Date": "Wed, 18 Feb 2026 10:00:00 GMT"}
    await HostPacer(queue, RunSettings(host_delay=timedelta(0)), SiteTable()).complain(
        scrapy.http.Response(PAGE, status=503, headers=headers)
    )
    (host,) = [one async for one in queue.hosts()]
    assert host.paused_for.total_seconds() == pytest.approx(seconds, abs=0.9)


class Counting(scrapy.Spider):
    name = "counting"

    def __init__(self):
        super().__init__()
        self.seen = set()
        self.client = object()


async def share(queue, spider):
    shared = SharedAttributes(VersionedNotes(queue, "run"), spider, RequestCodec(spider).values)
    await shared.read(0)
    return shared


async def test_what_a_callback_assigns_is_there_for_a_task_that_needs_it(queue):
    here, there = Counting(), Counting()
    one, other = await share(queue, here), await share(queue, there)
    here.token, here.links = "abc", defaultdict(list, {date(2026, 2, 3): ["/1"]})
    here.seen.add(1)
    await one.write()
    version = one.version
    await one.write()
    assert one.version == version == 1  # nothing has changed
    await other.read(version)
    assert (there.token, there.links) == ("abc", here.links)
    assert there.links["none"] == []
    assert there.seen == set()
    late = Counting()
    await share(queue, late)
    assert late.token == "abc"


async def test_of_two_workers_that_set_an_attribute_the_last_one_to_store_it_wins(queue):
    here, there = Counting(), Counting()
    one, other = await share(queue, here), await share(queue, there)
    here.pages, here.only = 1, "here"
    there.pages = 2
    await one.write()
    await other.write()
    await one.read(other.version)
    for spider in (here, there):
        assert (spider.pages, spider.only) == (2, "here")


async def test_nothing_is_written_before_the_first_callback(queue):
    spider = Counting()
    shared = SharedAttributes(VersionedNotes(queue, "run"), spider, RequestCodec(spider).values)
    await shared.write()
    assert shared.version == 0


async def test_an_attribute_that_cannot_be_shared_is_said_once(queue, caplog):
    spider = Counting()
    shared = await share(queue, spider)
    spider.page, spider.long = scrapy.http.Response(PAGE), "x" * (MAX_SIZE + 1)
    await shared.write()
    await shared.write()
    assert shared.version == 0
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "Counting.page is not shared",
        "Counting.long is not shared",
    ]
    assert "Pass what you read from it." in caplog.text


async def test_the_state_of_a_spider_is_shared_although_it_is_changed_in_place(queue):
    here, there = Counting(), Counting()
    here.state, there.state = {}, {}
    one, other = await share(queue, here), await share(queue, there)
    await one.write()
    assert one.version == 0  # nothing was set
    here.state["page"] = 3
    await one.write()
    await other.read(one.version)
    assert there.state == {"page": 3}
