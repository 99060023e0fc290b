"""What the settings of a project become for the fleet, and for the engine of a worker."""

from scrapy.settings import Settings

from shoal.scrape.scraper import Scraper
from shoal.scrapy.settings import engine_settings, fates, scraper_settings

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
