"""What is said while the seeds of a run are read."""

import pytest

from shoal.core.errors import InvalidTask
from shoal.discover.sitemaps.report import SitemapReport
from shoal.discover.source import Refusal
from shoal.fleet.run import feed
from shoal.fleet.run.feed import InvalidSeeds


def test_a_long_walk_through_sitemaps_says_how_far_it_is_every_ten_seconds(monkeypatch):
    clock, said = 1000.0, []
    monkeypatch.setattr(feed.time, "monotonic", lambda: clock)
    report = SitemapReport()
    InvalidSeeds(say=said.append).on_source(report)
    for number in range(10_000):
        report.begin_file(9_999 - number)
        report.files, report.urls = report.files + 1, report.urls + 50
        clock += 1
    assert len(said) == 999
    assert said[0] == "Reading sitemaps: 500 URLs in 10 files so far, 9,990 to read."


def test_the_first_invalid_seeds_are_said_and_kept_and_all_are_counted():
    said = []
    invalid = InvalidSeeds(say=said.append)
    for number in range(20):
        invalid.add(Refusal(f"urls.txt:{number}", "nonsense", "it is no URL"))
    assert said[0] == "Skipped urls.txt:0: 'nonsense': it is no URL" and len(said) == 11
    assert said[-1] == "More seeds were skipped; the summary shows how many."
    assert invalid.count == 20 and len(invalid.first) == 10


def test_a_program_that_says_nothing_about_invalid_seeds_finds_them_in_its_log(caplog):
    InvalidSeeds().add(Refusal("item 3", "https://a.example/", "ttl must be a timedelta"))
    assert caplog.messages == ["Skipped item 3: 'https://a.example/': ttl must be a timedelta"]


def test_the_error_for_an_invalid_seed_has_its_text():
    with pytest.raises(InvalidTask, match=r"sitemap: 'https://a\.example/s\.xml': status 404"):
        InvalidSeeds("raise").add(Refusal("sitemap", "https://a.example/s.xml", "status 404"))


def test_what_is_said_of_an_invalid_seed_has_no_password(caplog):
    InvalidSeeds().add(Refusal("item 1", "https://me:hushhush@a.example:x/", "it is no URL"))
    assert len(caplog.messages) == 1 and "hushhush" not in caplog.text
