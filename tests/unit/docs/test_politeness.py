"""The page on politeness says what the code does."""

from datetime import timedelta

from shoal.core import pacing, retry_policy
from shoal.core.model import MINUTE, SECOND, ZERO
from shoal.fetch import status
from shoal.fetch.robots import robots
from shoal.scrape.settings import scraper
from shoal.worker import outcomes, prefetch
from tests.unit.docs.pages import DOCS, rows

TEXT = (DOCS / "explanation" / "politeness.md").read_text()
MILLISECOND = timedelta(milliseconds=1)


def test_the_settings_have_the_defaults_that_are_shown():
    table = {row[0]: row[2] for row in rows(TEXT, "| setting | means | default |")}
    assert scraper.ScraperSettings().delay == SECOND
    assert table['`rate="5/s"`, or `delay="200ms"`'] == "one a second"
    assert table["`per_host=4`"] == f"{scraper.PER_HOST}; {scraper.PER_HOST_WITHOUT_GAP} without a gap"
    assert scraper.ScraperSettings.read(rate="5/s").delay == 200 * MILLISECOND
    assert (
        f"they take up {scraper.PER_HOST} of the {10 * 64} slots" in TEXT
        and table["`--concurrency 64`"] == "64"
    )


def test_starts_are_planned_as_the_page_says():
    assert (scraper.SLACK, scraper.MAX_SLACK) == (0.02, 2 * MILLISECOND)
    assert "2 % further apart than they may be (2 ms at most)" in TEXT
    assert prefetch.MAX_LAG == 0.05 and "half the gap, 50 ms at most" in TEXT
    assert prefetch.TOLERANCE == 0.04 and "more than 4 % of the gap" in TEXT
    assert SECOND == pacing.BURST_HORIZON and "about a second of a host's work in advance" in TEXT


def test_a_host_that_complains_is_treated_as_the_page_says():
    assert pacing.slower(ZERO).delay == 100 * MILLISECOND and "at least 100 ms, at most a minute" in TEXT
    assert pacing.slower(3 * SECOND).delay == 6 * SECOND and pacing.slower(MINUTE).delay == MINUTE
    assert pacing.slower(ZERO, timedelta(days=1)).pause == timedelta(hours=1) and "at most an hour" in TEXT
    assert pacing.recovered(10 * SECOND) == 8 * SECOND and "shrinks by a fifth with every page" in TEXT
    assert outcomes.ONE_COMPLAINT == 1 and "within one second count as one" in TEXT
    assert {403, 429, 503} == status.BLOCKING and "| 429, 503 or 403, or shows a" in TEXT
    assert retry_policy.ROBOTS_WAIT == MINUTE and "| a minute and the backoff |" in TEXT
    assert {200, 403} == retry_policy.UNWELCOME and "a 403 or a block page is about one client" in TEXT


def test_robots_txt_is_asked_for_as_often_as_the_page_says():
    assert timedelta(days=1) == robots.LIFETIME and "fetched once a day for the whole fleet" in TEXT
    assert MINUTE == robots.FAILURE_LIFETIME and "fetched again after a minute" in TEXT
