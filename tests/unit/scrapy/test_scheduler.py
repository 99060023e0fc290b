"""The scheduler's keys and filter, without an engine."""

from types import SimpleNamespace

import pytest
import scrapy
from scrapy.settings import Settings
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.request import RequestFingerprinter

from shoal.core.errors import InvalidSetting
from shoal.scrapy.codec import RequestCodec
from shoal.scrapy.results import CURRENT, TaskResults
from shoal.scrapy.scheduler import EngineScheduler
from shoal.scrapy.settings import check_settings

URL = "https://example.com/1"


class Quiet(scrapy.Spider):
    name = "quiet"


def in_euros(price):
    if price is None:
        raise TypeError("no price")
    return f"{price} EUR"


class Priced(scrapy.Item):
    price = scrapy.Field(serializer=in_euros)
    name = scrapy.Field()


def make_scheduler(**settings):
    crawler = SimpleNamespace(settings=Settings(settings), spider=None, signals=None)
    crawler.stats = MemoryStatsCollector(SimpleNamespace(settings=Settings({"STATS_DUMP": False})))
    crawler.request_fingerprinter = RequestFingerprinter()
    added = []
    outside = SimpleNamespace(add=lambda task, is_start: added.append(task))
    scheduler = EngineScheduler(crawler, SimpleNamespace(outside=outside, process_id="p", is_drained=True))
    scheduler.codec, scheduler.added = RequestCodec(Quiet()), added
    return scheduler


def follow(scheduler, *requests, key="parent"):
    """Return the tasks that the task with this key yields."""
    results = TaskResults(key)
    token = CURRENT.set(results)
    try:
        for request in requests:
            scheduler.enqueue_request(request)
    finally:
        CURRENT.reset(token)
    return results.follow


async def test_a_request_is_filtered_by_its_fingerprint_within_a_task_and_once_it_is_stored():
    scheduler = make_scheduler()
    one, same = scrapy.Request(f"{URL}?a=1&b=2"), scrapy.Request(f"{URL}?b=2&a=1")
    assert len(follow(scheduler, one, same)) == 1
    assert len(follow(scheduler, one)) == 1  # not stored yet
    scheduler.remember({RequestFingerprinter().fingerprint(one)})
    assert follow(scheduler, same) == []


async def test_requests_that_are_not_filtered_have_keys_that_are_the_same_when_their_task_is_repeated():
    requests = [scrapy.Request(URL, dont_filter=True) for _ in range(3)]
    keys = [task.key for task in follow(make_scheduler(), *requests)]
    assert len(set(keys)) == 3
    assert [task.key for task in follow(make_scheduler(), *requests)] == keys
    assert not set(keys) & {task.key for task in follow(make_scheduler(), *requests, key="another")}


async def test_without_a_filter_every_request_is_a_task_and_priorities_keep_their_order():
    scheduler = make_scheduler(DUPEFILTER_CLASS="scrapy.dupefilters.BaseDupeFilter")
    tasks = follow(scheduler, *(scrapy.Request(URL, priority=priority) for priority in (-9, -1, 0, 1, 99)))
    assert [task.priority for task in tasks] == [0, 3, 4, 5, 9]
    assert len({task.key for task in tasks}) == 5


async def test_a_request_from_outside_of_tasks_goes_to_the_queue_itself():
    scheduler = make_scheduler()
    scheduler.enqueue_request(scrapy.Request(URL))
    assert [task.url for task in scheduler.added] == [URL]


async def test_a_url_that_shoal_cannot_read_is_a_task_without_a_host():
    (task,) = follow(make_scheduler(), scrapy.Request("data:,text"))
    assert (task.url, task.payload) == (None, {"url": "data:,text"})


async def test_a_request_that_cannot_be_stored_fails_its_task_if_the_project_says_so():
    results = TaskResults("parent")
    token = CURRENT.set(results)
    scheduler = make_scheduler(SHOAL_UNSERIALIZABLE="error")
    assert not scheduler.enqueue_request(scrapy.Request(URL, callback=lambda response: None))
    CURRENT.reset(token)
    assert "is a lambda" in str(results.failure)


async def test_results_are_complete_when_the_last_request_has_ended():
    results = TaskResults("parent")
    results.begin()
    results.end()
    assert not results.is_over
    results.end()
    await results.wait()
    results.add_item({"a": object()})
    assert (results.items, len(results.rejects)) == ([], 1)
    results.add_item("text")
    assert results.items == []
    assert results.rejects[-1].reason.startswith("a value of type str is no item")


async def test_fields_are_stored_as_their_serializers_change_them_and_a_failing_one_rejects_the_item():
    results = TaskResults("parent")
    results.add_item(Priced(price=2, name="a"))
    assert results.items == [{"price": "2 EUR", "name": "a"}]
    results.add_item(Priced(price=None))
    (reject,) = results.rejects
    assert reject.data == {"price": None}
    assert reject.reason.startswith("TypeError: no price (test_scheduler.py:")
    assert len(results.objects) == 1


@pytest.mark.parametrize("name", ["SCHEDULER", "DOWNLOADER", "DUPEFILTER_CLASS"])
def test_what_would_take_the_place_of_the_queue_is_refused(name):
    with pytest.raises(InvalidSetting, match=f"{name} is scrapy_redis.Some. .*delete the line"):
        check_settings(Settings({name: "scrapy_redis.Some"}))
