"""What is said while the seeds of a run are read."""

import json

import pytest

from shoal.cli import enqueue_seeds
from shoal.cli.enqueue_seeds import RefusedSeeds
from shoal.discover.sitemaps.report import SitemapReport
from shoal.discover.source import Refusal


@pytest.mark.parametrize("as_json", [False, True])
def test_a_long_walk_through_sitemaps_says_how_far_it_is_every_ten_seconds(monkeypatch, capsys, as_json):
    clock = 1000.0
    monkeypatch.setattr(enqueue_seeds.time, "monotonic", lambda: clock)
    with RefusedSeeds(None, as_json=as_json) as refused:
        report = SitemapReport()
        refused._watch(report)
        for number in range(10_000):
            report.begin_file(9_999 - number)
            report.files, report.urls = report.files + 1, report.urls + 50
            clock += 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 999
    first = json.loads(lines[0])["message"] if as_json else lines[0]
    assert first == "Reading sitemaps: 500 URLs in 10 files so far, 9,990 to read."


def test_with_json_a_skipped_seed_is_a_line_of_json(capsys):
    with RefusedSeeds(None, as_json=True) as refused:
        refused.note(Refusal("urls.txt:3", "nonsense", "it is no URL"))
    assert json.loads(capsys.readouterr().err) == {"message": "Skipped urls.txt:3: 'nonsense': it is no URL"}
