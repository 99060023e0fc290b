"""What a schedule says, and when it occurs, also where the clocks change."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from shoal.core.errors import InvalidSetting
from shoal.fleet.schedule.definition import Schedule

NOON = datetime(2026, 2, 15, 12, tzinfo=UTC)


def schedule(**given):
    return Schedule.read("schedules.nightly", {"scraper": "books", **given})


def times(after, count, **given):
    found, moment = [], after
    for _ in range(count):
        moment = schedule(**given).next_after(moment)
        found.append(f"{moment:%d %H:%M}")
    return found


@pytest.mark.parametrize(
    ("zone", "cron", "after", "expected"),
    [
        # Berlin, 29 March: 02:00 becomes 03:00, and 02:30 does not exist.
        (
            "Europe/Berlin",
            "30 2 * * *",
            datetime(2026, 3, 28, tzinfo=UTC),
            ["28 01:30", "29 01:00", "30 00:30"],
        ),
        # New York, 8 March.
        ("America/New_York", "30 2 * * *", datetime(2026, 3, 7, 9, tzinfo=UTC), ["08 07:00", "09 06:30"]),
        # Every hour, none is left out and none comes twice.
        (
            "Europe/Berlin",
            "0 * * * *",
            datetime(2026, 3, 28, 23, 30, tzinfo=UTC),
            ["29 00:00", "29 01:00", "29 02:00"],
        ),
    ],
)
def test_a_time_that_the_spring_leaves_out_occurs_right_after_the_gap(zone, cron, after, expected):
    assert times(after, len(expected), cron=cron, timezone=zone) == expected


@pytest.mark.parametrize(
    ("zone", "cron", "after", "expected"),
    [
        # Berlin, 25 October: 03:00 becomes 02:00, and 02:30 exists at 00:30 and at 01:30 UTC.
        ("Europe/Berlin", "30 2 * * *", datetime(2026, 10, 24, 12, tzinfo=UTC), ["25 00:30", "26 01:30"]),
        # New York, 1 November.
        ("America/New_York", "30 1 * * *", datetime(2026, 10, 31, 12, tzinfo=UTC), ["01 05:30", "02 06:30"]),
        (
            "Europe/Berlin",
            "0 * * * *",
            datetime(2026, 10, 24, 23, 30, tzinfo=UTC),
            ["25 00:00", "25 01:00", "25 02:00"],
        ),
    ],
)
def test_a_time_that_the_autumn_has_twice_occurs_once(zone, cron, after, expected):
    assert times(after, len(expected), cron=cron, timezone=zone) == expected


def test_from_within_the_second_of_two_equal_hours_no_occurrence_lies_in_the_past():
    within = datetime(2026, 10, 25, 1, 10, tzinfo=UTC)  # 02:10 in Berlin, for the second time
    assert schedule(cron="0,30 2 * * *", timezone="Europe/Berlin").next_after(within) > within


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
def test_a_nightly_schedule_occurs_once_on_each_day_of_a_year(zone):
    nightly, moment, found = (
        schedule(cron="30 2 * * *", timezone=zone),
        datetime(2026, 1, 1, 12, tzinfo=UTC),
        [],
    )
    for _ in range(365):
        moment = nightly.next_after(moment)
        found.append(moment)
    gaps = {after - before for before, after in pairwise(found)}
    assert gaps <= {timedelta(hours=hours) for hours in (23, 23.5, 24, 24.5, 25)}


def test_an_interval_counts_from_midnight_so_that_all_machines_agree():
    assert times(NOON + timedelta(minutes=7), 3, every="6h") == ["15 18:00", "16 00:00", "16 06:00"]


def test_jitter_is_the_same_everywhere_within_its_bound_and_differs_between_occurrences():
    late = schedule(every="1h", jitter="10m")
    delays = {
        late.due_at("nightly", NOON + timedelta(hours=hour)) - (NOON + timedelta(hours=hour))
        for hour in range(50)
    }
    assert len(delays) == 50
    assert min(delays) >= timedelta(0) and max(delays) <= timedelta(minutes=10)
    assert late.due_at("nightly", NOON) == schedule(every="1h", jitter="10m").due_at("nightly", NOON)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cron": "0 2 * *"}, "five fields"),
        ({"cron": "61 2 * * *"}, "bad minute"),
        ({"cron": "0 0 30 2 *"}, "bad day-of-month"),
        ({"every": "10ms"}, "at least 1s"),
        ({}, "needs either cron"),
        ({"cron": "0 2 * * *", "every": "1h"}, "needs either cron"),
        ({"cron": "0 2 * * *", "timezone": "Europe/Berln"}, "Did you mean 'Europe/Berlin'"),
        ({"every": "1h", "timezone": "Europe/Berlin"}, "is for cron"),
        ({"every": "1h", "overlap": "queue"}, "'skip' or 'wait' or 'cancel'"),
        ({"every": "1h", "settings": {"rat": "1/s"}}, "Did you mean 'rate'"),
        ({"every": "1h", "jitter": "61m"}, "longer than the interval, 1h"),
        ({"every": "1h", "settings": {"rate": "fast"}}, "settings.rate"),
        ({"every": "1h", "settings": {"headers": {"Authorization": "Bearer abc"}}}, "contains a secret"),
        ({"every": "1h", "settings": {"proxies": "http://ann:pw@p.example:80"}}, "contains a secret"),
        ({"every": "1h", "seeds": {"url": ["https://ann:pw@a.example/"]}}, "contains a password"),
        ({"every": "1h", "out": "postgresql://ann:pw@db/{run}"}, "contains a password"),
        ({"every": "1h", "seeds": {"urll": "x"}}, "is not known"),
        ({"every": "1h", "out": "books.jsonl"}, "write {run} in its name"),
    ],
)
def test_what_is_wrong_is_refused_with_what_to_write(given, said):
    with pytest.raises(InvalidSetting, match=r"schedules\.nightly") as caught:
        schedule(**given)
    assert said in str(caught.value)


def test_a_port_and_a_user_without_a_password_are_no_secret():
    schedule(every="1h", seeds={"url": ["http://a.example:80/@x"]}, out="postgresql://ann@db/{run}")


def test_a_table_that_is_written_and_read_again_is_the_same():
    given = {
        "cron": "0 2 * * *",
        "timezone": "Europe/Berlin",
        "args": {"a": 1},
        "out": "{run}.csv",
        "missed": "skip",
    }
    assert Schedule.read("x", schedule(**given).as_table()) == schedule(**given)
