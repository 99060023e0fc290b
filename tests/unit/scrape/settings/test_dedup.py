"""The setting `dedup`, as users write it, and its effect on a run."""

from datetime import timedelta

import pytest

from shoal.core.errors import InvalidSetting
from shoal.scrape.scraper import Scraper
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.scrape.settings.storage import DedupSettings

MONTH = timedelta(days=30)


@pytest.mark.parametrize("month", ["30d", MONTH, MONTH.total_seconds(), {"lifetime": "30d"}, "lifetime=30d"])
def test_a_lifetime(month):
    assert ScraperSettings.read(dedup=month).dedup == DedupSettings(lifetime=MONTH)


@pytest.mark.parametrize(
    "given",
    [
        "30d steps=article,comment",
        {"lifetime": "30d", "steps": ["article", "comment"]},
        {"lifetime": MONTH, "steps": ("article", "comment")},
    ],
)
def test_steps(given):
    assert ScraperSettings.read(dedup=given).dedup == DedupSettings(
        lifetime=MONTH, steps=("article", "comment")
    )


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("", "must look like '30d'"),
        ("steps=article", "needs a duration"),
        ("soon", "duration"),
        ("0s", "duration"),
        (-1, "duration"),
        (True, "duration"),
        ("30d step=article", "Did you mean 'steps'?"),
        ("30d steps=", "dedup.steps"),
        ({"lifetime": "30d", "steps": 3}, "dedup.steps"),
    ],
)
def test_what_cannot_be_is_refused(given, reason):
    with pytest.raises(InvalidSetting, match="dedup") as refusal:
        ScraperSettings.read(dedup=given)
    assert reason in str(refusal.value)


def test_pages_that_are_visited_again_are_not_left_out_at_the_same_time():
    for other in ({"again": "newest"}, {"recrawl": True}):
        with pytest.raises(InvalidSetting, match="dedup skips"):
            ScraperSettings.read(dedup="30d", **other)


def scraper_with(dedup):
    news = Scraper("news", dedup=dedup)

    @news.step
    def listing(page):
        return None

    @news.step
    def article(page):
        return None

    return news


def test_a_run_knows_the_steps_by_name():
    assert scraper_with("30d").run_settings().dedup_steps == ("listing", "article")
    assert scraper_with("30d steps=article").run_settings().dedup_steps == ("article",)
    assert scraper_with(None).run_settings().dedup_steps == ()


def test_a_step_that_is_not_there_is_refused():
    with pytest.raises(InvalidSetting, match="Did you mean 'article'"):
        scraper_with("30d steps=articel").run_settings()
