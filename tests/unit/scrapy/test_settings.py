"""What the settings of a project become for the fleet, and for the engine of a worker."""

import pytest
from scrapy.settings import Settings

from shoal.core.model import Stats
from shoal.scrape.scraper import Scraper
from shoal.scrapy.settings import FleetLimits, engine_settings, fates, read_attributes, scraper_settings

SLOTS = {"a.example": {"delay": 3, "concurrency": 1}, "slow": {"delay": 9}}


def test_a_slot_that_is_a_host_has_its_delay_for_the_whole_fleet_and_another_one_in_each_worker():
    settings = Settings({"DOWNLOAD_SLOTS": SLOTS, "DOWNLOAD_DELAY": 0.5})
    site = Scraper("a").replace(**scraper_settings(settings)).settings.sites.find
    assert site("http://a.example/1").delay.total_seconds() == 3
    assert site("http://b.example/1").delay is None
    slots = engine_settings(settings)["DOWNLOAD_SLOTS"]
    assert slots == {"a.example": {"delay": 0, "concurrency": 1}, "slow": {"delay": 9}}


def test_without_autothrottle_a_host_that_had_no_other_delay_gets_a_request_each_second():
    throttled = Settings({"AUTOTHROTTLE_ENABLED": True})
    assert scraper_settings(throttled)["delay"] == 1.0
    throttled.set("DOWNLOAD_DELAY", 0.2)
    assert scraper_settings(throttled)["delay"] == 0.2
    assert scraper_settings(Settings())["delay"] == 0.0


def test_what_a_project_sets_in_vain_is_said():
    names = ("RANDOMIZE_DOWNLOAD_DELAY", "SCHEDULER_MEMORY_QUEUE", "AUTOTHROTTLE_ENABLED")
    found = {fate.what: str(fate) for fate in fates(Settings(dict.fromkeys(names, True))) if not fate.is_used}
    assert all("is not used: " in found[name] for name in names)


def test_a_slot_that_is_faster_than_the_delay_and_limits_of_zero_take_nothing_away():
    settings = Settings({"DOWNLOAD_SLOTS": {"a.example": {"delay": 1}}, "DOWNLOAD_DELAY": 2})
    settings.setdict({"CONCURRENT_REQUESTS": 0, "CONCURRENT_REQUESTS_PER_DOMAIN": 0})
    made = Scraper("a").replace(**scraper_settings(settings)).settings
    assert made.sites.find("http://a.example/1").delay is None
    assert made.per_host == engine_settings(settings)["CONCURRENT_REQUESTS_PER_DOMAIN"] > 0


def test_attributes_of_older_spiders_are_settings_unless_its_own_say_more():
    class Old:
        download_delay, max_concurrent_requests = 3, 2

    settings = Settings({"DOWNLOAD_DELAY": 1})
    settings.set("CONCURRENT_REQUESTS_PER_DOMAIN", 5, priority="spider")
    read_attributes(Old, settings)
    assert (scraper_settings(settings)["delay"], scraper_settings(settings)["per_host"]) == (3.0, 5)
    spider = Old()
    spider.download_delay = 7
    read_attributes(spider, settings)
    assert scraper_settings(settings)["delay"] == 7.0


def test_every_setting_of_scrapy_that_is_set_has_a_fate():
    vain = {"LOG_FILE": "a.log", "AUTOTHROTTLE_START_DELAY": 9, "DUPEFILTER_DEBUG": True}
    used = {"RETRY_TIMES": 5, "CLOSESPIDER_PAGECOUNT": 9, "LOG_FORMATTER": "a.Formatter"}
    found = {fate.what: fate.is_used for fate in fates(Settings({**vain, **used, "OWN": 1}))}
    assert found == dict.fromkeys(vain, False) | dict.fromkeys(used, True)


@pytest.mark.parametrize(
    ("own", "items"),
    [({}, 1), ({"ITEM_PIPELINES": {"a.Pipeline": 1}}, 8), ({"CONCURRENT_ITEMS": 30}, 30)],
)
def test_few_items_of_a_response_are_processed_at_once_and_one_after_the_other_without_pipelines(own, items):
    assert engine_settings(Settings(own))["CONCURRENT_ITEMS"] == items


def stats(items=0, completed=0):
    return Stats(items=items, completed=completed)


@pytest.mark.parametrize(
    ("name", "below", "reached"),
    [
        ("ITEMCOUNT", (stats(items=9), {}, 0.0), (stats(items=10), {}, 0.0)),
        (
            "ERRORCOUNT",
            (stats(), {"spider_exceptions/count": 9}, 0.0),
            (stats(), {"spider_exceptions/count": 12}, 0.0),
        ),
        (
            "PAGECOUNT",
            (stats(completed=99), {"response_received_count": 9}, 0.0),
            (stats(), {"response_received_count": 10}, 0.0),
        ),
        ("TIMEOUT_NO_ITEM", (stats(), {}, 9.9), (stats(), {}, 10.0)),
        ("PAGECOUNT_NO_ITEM", (stats(completed=9), {}, 0.0), (stats(completed=10), {}, 0.0)),
    ],
)
def test_a_limit_is_reached_by_the_counts_of_the_run(name, below, reached):
    settings = Settings({f"CLOSESPIDER_{name}": 10})
    limits = FleetLimits(settings)
    assert limits
    assert limits.reached(stats(), {}, 0.0) is None
    assert limits.reached(*below) is None
    assert limits.reached(*reached) == f"closespider_{name.lower()}"
    assert engine_settings(settings)[f"CLOSESPIDER_{name}"] == 0  # not by the counts of one worker


def test_an_item_of_any_worker_starts_the_limits_without_items_again():
    limits = FleetLimits(Settings({"CLOSESPIDER_TIMEOUT_NO_ITEM": 10, "CLOSESPIDER_PAGECOUNT_NO_ITEM": 5}))
    limits.reached(stats(), {}, 0.0)
    assert limits.reached(stats(items=1, completed=4), {}, 9.0) is None
    assert limits.reached(stats(items=1, completed=8), {}, 18.0) is None
    assert limits.reached(stats(items=1, completed=8), {}, 19.0) == "closespider_timeout_no_item"
    assert limits.reached(stats(items=2, completed=9), {}, 19.0) is None
    assert limits.reached(stats(items=2, completed=14), {}, 20.0) == "closespider_pagecount_no_item"


def test_without_limits_there_is_nothing_to_look_at():
    assert not FleetLimits(Settings())
