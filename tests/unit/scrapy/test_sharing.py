"""What the workers of a run share: cookie jars, attributes of the spider, and the pace of hosts."""

import asyncio
import time
from collections import defaultdict
from contextlib import contextmanager
from datetime import date, timedelta
from itertools import pairwise

import pytest
import scrapy
from scrapy.http.cookies import CookieJar

from shoal.core.model import RunSettings
from shoal.scrape.requests import OwnStep
from shoal.scrape.scraper import Scraper
from shoal.scrape.settings.sites import SiteTable
from shoal.scrapy.attributes import MAX_SIZE, VERSION, SharedAttributes
from shoal.scrapy.codec import RequestCodec
from shoal.scrapy.cookies import SharedCookies
from shoal.scrapy.pacing import HostPacer
from shoal.scrapy.results import TaskResults

PAGE = "https://shop.test/1"


def set_cookie(jars, name, value, *, jar=None):
    request = scrapy.Request(PAGE)
    response = scrapy.http.Response(PAGE, headers={"Set-Cookie": f"{name}={value}; Path=/"})
    jars[jar].extract_cookies(response, request)


def cookies_of(jars, jar=None):
    return {one.name: one.value for one in jars[jar]}


async def test_a_worker_reads_the_cookies_that_the_task_needs(queue):
    here, there = defaultdict(CookieJar), defaultdict(CookieJar)
    login, other = SharedCookies(queue, "run", here), SharedCookies(queue, "run", there)
    set_cookie(here, "session", "1")
    set_cookie(here, "session", "2", jar="second")
    await login.write()
    await other.read(login.versions)
    assert (cookies_of(there), cookies_of(there, "second")) == ({"session": "1"}, {"session": "2"})
    before = dict(login.versions)
    await login.write()
    assert login.versions == before  # nothing has changed


async def test_cookies_that_two_workers_set_at_once_are_both_kept(queue):
    here, there = defaultdict(CookieJar), defaultdict(CookieJar)
    one, other = SharedCookies(queue, "run", here), SharedCookies(queue, "run", there)
    set_cookie(here, "a", "1")
    set_cookie(there, "b", "2")
    await one.write()
    await other.write()
    await one.read(other.versions)
    assert cookies_of(here) == cookies_of(there) == {"a": "1", "b": "2"}


async def test_a_task_has_one_turn_from_its_claim_and_its_other_requests_wait(queue):
    gap = 0.2
    pacer = HostPacer(queue, RunSettings(host_delay=timedelta(seconds=gap), per_host=1), SiteTable())
    turns, sent = iter([True, False, False]), []

    async def take_turn():
        return next(turns)

    results = TaskResults("key", scrapy.Request(PAGE), OwnStep(take_turn))
    for _ in range(3):
        async with pacer.turn(scrapy.Request(PAGE), results):
            sent.append(asyncio.get_running_loop().time())
    assert min(later - earlier for earlier, later in pairwise(sent)) >= 0.95 * gap


async def test_after_a_request_that_was_sent_late_a_turn_that_is_on_time_is_given_up(queue):
    gap = 0.2
    pacer = HostPacer(queue, RunSettings(host_delay=timedelta(seconds=gap), per_host=2), SiteTable())

    async def take_turn():
        return True

    async def send(key):
        async with pacer.turn(
            scrapy.Request(PAGE), TaskResults(key, scrapy.Request(PAGE), OwnStep(take_turn))
        ):
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
        async with pacer.turn(scrapy.Request(PAGE), None):
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
        async with pacer.turn(scrapy.Request(PAGE), results):
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
    shared = SharedAttributes(queue, "run", spider, RequestCodec(spider).values)
    await shared.begin()
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
    await other.read({VERSION: version})
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
    await one.read({VERSION: other.version})
    for spider in (here, there):
        assert (spider.pages, spider.only) == (2, "here")


async def test_nothing_is_written_before_the_first_callback(queue):
    spider = Counting()
    shared = SharedAttributes(queue, "run", spider, RequestCodec(spider).values)
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
    await other.read({VERSION: one.version})
    assert there.state == {"page": 3}
