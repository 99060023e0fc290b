"""The screen of `shoal top` at common sizes."""

import io
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from shoal.cli.commands.inspect.top import screen
from shoal.core.model import Counts, Stats
from shoal.fleet.status.overview import Overview
from shoal.fleet.status.progress import Snapshot
from tests.unit.builders import make_host, make_run, make_worker

SECOND = timedelta(seconds=1)


def run(number):
    found = make_run(
        id=f"20260215_12000{number}_ab12",
        scraper="a-scraper-with-a-long-name",
        started_at=datetime(2026, 2, 15, tzinfo=UTC),
    )
    return Snapshot(found, Stats(pending=1_234_567, completed=99_999, dead=12_345), 3, 1234.5, 3700 * SECOND)


def worker(number, beat=2):
    return make_worker(
        worker_id=f"node-{number}.scrapers.example.com-1234{number}-4fc151a{number}",
        info={"pid": 1, "steps": ["listing", "book"], "memory": 51 << 20, "last_hour": 12_345},
        last_beat=beat * SECOND,
        leased=50,
        completed=88_888,
        failed=17,
        items=5,
    )


def host(number):
    counts = Counts(pending=649, leased=4, completed=2061)
    return make_host(f"shop-{number}.example.com", counts=counts, paused_for=90 * SECOND)


FULL = Overview(
    runs=[run(number) for number in range(8)],
    workers=[worker(number, beat=40 if number == 1 else 2) for number in range(9)],
    hosts=[host(number) for number in range(9)],
    errors={"FetchTimeout": 335},
)


def drawn(seen, width, height, **more):
    console = Console(file=io.StringIO(), width=width, height=height)
    console.print(screen(seen, "sqlite:///shoal.db", width=width, height=height, **more))
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (120, 40), (200, 60)])
def test_the_screen_fits_whatever_the_queue_contains(width, height):
    lines = drawn(FULL, width, height)
    assert len(lines) < height
    assert max(map(len, lines)) <= width


def test_on_a_small_screen_every_number_is_whole():
    text = "\n".join(drawn(FULL, 80, 24))
    for number in ("99,999", "1,235k", "12,345", "1,234.5", "88,888", "51 MB", "1 min 30 s", "2,061"):
        assert number in text
    assert "(+5 more)" in text and "ERRORS   FetchTimeout 335" in text


def test_workers_can_be_distinguished_on_a_small_screen():
    text = "\n".join(drawn(FULL, 80, 24))
    assert "-12340-4fc151a0" in text and "-12341-4fc151a1" in text


def test_a_late_worker_is_counted_at_the_top_with_what_to_type():
    assert "8 workers, 9,876.0 tasks/s, 1 late: shoal stale" in drawn(FULL, 120, 40)[0]


def test_an_empty_queue_says_what_to_type():
    text = "\n".join(drawn(Overview(), 80, 24))
    assert "Start one with: shoal run FILE" in text and "No errors." in text


def test_a_queue_error_is_shown_with_the_last_data():
    lines = drawn(FULL, 80, 24, trouble="The queue at db cannot be reached")
    assert lines[-1] == "The queue at db cannot be reached"


def test_names_of_hosts_and_errors_cannot_move_the_cursor():
    bad = make_host("a\x1b[2Jb[red]")
    text = "".join(drawn(Overview(hosts=[bad], errors={"\x1b[2J": 1}), 80, 24))
    assert "\x1b" not in text and "[red]" in text
