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


def after(history, *changes, date=PageDate.UNKNOWN):
    for changed in changes:
        history = history.after_visit(BOUNDS, changed=changed, date=date)
    return history


def days_between(*changes):
    history, found = PageHistory(), []
    for changed in changes:
        history = after(history, changed)
        found.append(history.interval / DAY)
    return found


def test_an_interval_grows_while_a_page_stays_the_same_and_halves_with_each_change():
    assert days_between(False, False, False, True) == [1, 1.5, 2.25, 1.125]


def test_an_interval_stays_within_its_bounds():
    assert days_between(*[False] * 20)[-1] == 30
    assert days_between(*[False] * 20, *[True] * 20)[-1] == 1


def test_the_history_counts_visits_and_changes():
    history = after(PageHistory(), False, True, True)
    assert (history.visits, history.changes) == (3, 2)


def test_a_page_whose_interval_is_not_known_is_fetched_after_the_shortest():
    assert PLAN.judge(KEY, PageHistory(), 0.86 * DAY)[0] is RevisitReason.DUE
    assert PLAN.judge(KEY, PageHistory(), 0.84 * DAY)[0] is RevisitReason.NOT_DUE


def test_new_bounds_apply_to_pages_that_are_known():
    history = PageHistory(interval=100 * DAY, visits=9)
    assert PLAN.judge(KEY, history, 26 * DAY)[0] is RevisitReason.DUE
    assert after(history, True).interval == 15 * DAY


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


def test_beyond_the_budget_a_page_is_left_and_a_date_or_its_age_is_no_excuse():
    plan = RevisitPlan(bounds=BOUNDS, pages=1, least=RevisitRank(3.0, KEY))
    history = PageHistory(interval=DAY, visits=5)
    assert plan.judge(KEY, history, 2 * DAY)[0] is RevisitReason.OVER_BUDGET
    assert plan.judge(KEY, history, 4 * DAY)[0] is RevisitReason.DUE
    assert plan.judge(KEY, history, 0.1 * DAY)[0] is RevisitReason.NOT_DUE
    assert plan.judge(KEY, history, 2 * DAY, PageDate.NEWER)[0] is RevisitReason.DATE
