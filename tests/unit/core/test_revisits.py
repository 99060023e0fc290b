"""When a page is fetched again."""

from datetime import timedelta

import pytest

from shoal.core.revisits import (
    PageDate,
    PageHistory,
    RevisitBounds,
    RevisitPlan,
    RevisitRank,
    RevisitReason,
    shortening,
)

DAY = timedelta(days=1)
BOUNDS = RevisitBounds(DAY, 30 * DAY)
PLAN = RevisitPlan(bounds=BOUNDS)
KEY = "80000000"  # its intervals are shortened by 15 %


FIRST_VISIT = PageHistory().after_visit(BOUNDS, 0 * DAY, changed=False, date=PageDate.UNKNOWN)


def after(history, *changes, date=PageDate.UNKNOWN, age=DAY, bounds=BOUNDS):
    for changed in changes:
        history = history.after_visit(bounds, age, changed=changed, date=date)
    return history


def interval_after(*changes, **options):
    """Return the interval in days of a page that was then found changed, or not, every day."""
    bounds = options.get("bounds", BOUNDS)
    history = after(FIRST_VISIT, *changes, **options)
    return round(bounds.limit(history.interval) / DAY, 2)


def test_the_interval_of_a_page_that_never_changes_is_a_quarter_of_the_time_it_is_known():
    assert [interval_after(*[False] * days) for days in (0, 4, 8, 60, 120, 300)] == [1, 1, 2, 15, 30, 30]


def test_a_page_that_changes_every_week_is_fetched_every_night():
    week = [False] * 6 + [True]
    assert interval_after(*week) == interval_after(*week * 8) == interval_after(*week * 8, *[False] * 12) == 1


def test_a_page_that_changes_every_two_months_is_fetched_about_every_three_days():
    months = [False] * 59 + [True]
    assert interval_after(*months * 3) == 3.23


def test_a_page_is_fetched_less_often_again_when_it_has_changed_for_the_last_time():
    page_of_news = [True] * 5
    assert [interval_after(*page_of_news, *[False] * days) for days in (15, 30, 60)] == [1, 2, 4]


def test_what_was_long_ago_counts_less_and_less():
    static = after(PageHistory(), *[False] * 400)
    found = [round(after(static, *[True] * days).interval / DAY, 1) for days in (1, 5, 10, 15)]
    assert found == sorted(found, reverse=True) and found[0] < 7 and found[-1] < 1.5
    assert after(static, True, *[False] * 400).interval > 20 * DAY


def test_the_bounds_alone_say_how_long_intervals_are():
    hourly = RevisitBounds(DAY / 24, 30 * DAY)
    assert interval_after(*[False] * 8, age=DAY / 24, bounds=hourly) == round(2 / 24, 2)
    assert interval_after(*[False] * 4, age=7 * DAY) == 7
    assert interval_after(False, age=DAY * 0) == 1


def test_the_history_counts_visits_and_changes():
    history = after(PageHistory(), False, True, True)
    assert (history.visits, history.changes) == (3, 2)


def test_a_page_whose_interval_is_not_known_is_fetched_after_the_shortest():
    assert PLAN.judge(KEY, PageHistory(), 0.86 * DAY)[0] is RevisitReason.DUE
    assert PLAN.judge(KEY, PageHistory(), 0.84 * DAY)[0] is RevisitReason.NOT_DUE


def test_new_bounds_apply_to_pages_that_are_known():
    history = PageHistory(interval=100 * DAY, visits=9, observed=400 * DAY)
    assert PLAN.judge(KEY, history, 26 * DAY)[0] is RevisitReason.DUE
    assert after(history, False).interval == 30 * DAY
    assert PLAN.judge(KEY, PageHistory(interval=DAY / 15, visits=9), 0.84 * DAY)[0] is RevisitReason.NOT_DUE


def test_a_history_that_was_stored_by_an_earlier_version_goes_on():
    assert (
        after(PageHistory(interval=9 * DAY, visits=7, changes=2), False, age=9 * DAY).interval == 2.25 * DAY
    )


def test_pages_of_one_night_do_not_fall_due_in_one_night():
    shares = [shortening(f"{number:08x}") for number in range(0, 1 << 32, 1 << 24)]
    assert min(shares) == 0.05 and 0.24 < max(shares) < 0.25 and len(set(shares)) == len(shares)


@pytest.mark.parametrize(
    ("date", "wrong", "days", "reason"),
    [
        (PageDate.NEWER, 0, 0.1, RevisitReason.DATE),
        (PageDate.NEWER, 1, 0.1, RevisitReason.DATE),
        (PageDate.NEWER, 2, 0.1, RevisitReason.NOT_DUE),
        (PageDate.OLDER, 0, 25, RevisitReason.NOT_DUE),
        (PageDate.OLDER, 0, 26, RevisitReason.DUE),
        (PageDate.OLDER, 2, 25, RevisitReason.DUE),
        (PageDate.UNKNOWN, 0, 25, RevisitReason.DUE),
    ],
)
def test_a_date_decides_unless_it_was_wrong_twice_in_a_row(date, wrong, days, reason):
    history = PageHistory(interval=DAY, visits=5, wrong_dates=wrong)
    assert PLAN.judge(KEY, history, days * DAY, date)[0] is reason


@pytest.mark.parametrize(
    ("date", "changed", "wrong"),
    [
        (PageDate.NEWER, True, 0),
        (PageDate.NEWER, False, 2),
        (PageDate.OLDER, True, 2),
        (PageDate.OLDER, False, 1),
        (PageDate.UNKNOWN, True, 1),
        (PageDate.UNKNOWN, False, 1),
    ],
)
def test_a_visit_shows_whether_the_date_was_right(date, changed, wrong):
    history = PageHistory(interval=DAY, visits=5, wrong_dates=1)
    assert after(history, changed, date=date).wrong_dates == wrong


def test_of_pages_with_the_shortest_interval_those_that_change_most_are_most_overdue():
    static, weekly, daily = [False] * 5, ([False] * 6 + [True]) * 3, [True] * 20
    ranks = [PLAN.judge(KEY, after(FIRST_VISIT, *found), DAY)[1] for found in (static, weekly, daily, [])]
    assert ranks == sorted(ranks) and ranks[1] < ranks[2]


def test_beyond_the_budget_a_page_is_left_and_a_date_or_its_age_is_no_excuse():
    plan = RevisitPlan(bounds=BOUNDS, pages=1, least=RevisitRank(3.0, KEY))
    history = PageHistory(interval=DAY, visits=5)
    assert plan.judge(KEY, history, 2 * DAY)[0] is RevisitReason.OVER_BUDGET
    assert plan.judge(KEY, history, 4 * DAY)[0] is RevisitReason.DUE
    assert plan.judge(KEY, history, 0.1 * DAY)[0] is RevisitReason.NOT_DUE
    assert plan.judge(KEY, history, 2 * DAY, PageDate.NEWER)[0] is RevisitReason.DATE
