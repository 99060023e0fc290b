"""When a page is fetched again: decided from how often it was found changed; no clock, no I/O."""

from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

import msgspec

SHORTENED = 0.05, 0.25  # of an interval, differently for each page: else all would fall due in one night
# An interval is a fifteenth of the average time between two changes, so that a page which changes every week
# is fetched every night. A page that never changed counts as if it had done so 4/15 times.
PER_CHANGE, UNSEEN = 15, 4
MAX_WRONG_DATES = 2  # in a row, after which the date of a sitemap or feed is not believed


class RevisitReason(StrEnum):
    """Why a page is fetched in a run, or is not."""

    NEW = "new"  # it was not fetched before, or its results are not stored
    DATE = "date"  # a sitemap or feed says that it has changed since
    DUE = "due"  # its interval is over
    OVER_BUDGET = "over_budget"  # it is due, and left for the next run
    NOT_DUE = "not_due"

    @property
    def is_fetched(self) -> bool:
        """Whether the page is fetched."""
        return self not in (RevisitReason.OVER_BUDGET, RevisitReason.NOT_DUE)


class RevisitBounds(NamedTuple):
    """The shortest and the longest interval between two fetches of a page."""

    shortest: timedelta
    longest: timedelta

    def limit(self, interval: timedelta) -> timedelta:
        """Return the interval, or the bound that it exceeds."""
        return max(self.shortest, min(interval, self.longest))


class PageHistory(msgspec.Struct, frozen=True, array_like=True):
    """How often a page was fetched and found changed."""

    interval: timedelta = timedelta(0)  # until the next fetch, which may be less than the bounds allow
    visits: int = 0
    changes: int = 0
    wrong_dates: int = 0  # in a row: the date of a sitemap or feed said otherwise than the page
    observed: timedelta = timedelta(0)  # from the first visit to the last one, or a window before that
    recent: float = 0.0  # changes in this time
    quiet: timedelta = timedelta(0)  # the time without a change until the last visit

    def after_visit(
        self, bounds: RevisitBounds, age: timedelta, *, changed: bool, date: "PageDate"
    ) -> "PageHistory":
        """Return the history after one more fetch, when the last one was as old as `age`."""
        wrong, is_newer = self.wrong_dates, date is PageDate.NEWER
        if is_newer or (changed and date is PageDate.OLDER):  # else the date has proved nothing
            wrong = 0 if is_newer and changed else wrong + 1
        observed, recent = self.observed + age, self.recent + changed
        quiet = timedelta(0) if changed else self.quiet + age
        # More would not lengthen the interval, and hide how often the page changes now.
        kept = min(1.0, UNSEEN * bounds.longest / observed) if observed else 1.0
        observed, recent = kept * observed, kept * recent
        interval = max(observed / (PER_CHANGE * recent + UNSEEN), quiet / PER_CHANGE)
        return PageHistory(interval, self.visits + 1, self.changes + changed, wrong, observed, recent, quiet)


class PageDate(StrEnum):
    """What the date of a sitemap or feed says about a page, compared with its last fetch."""

    UNKNOWN = "unknown"
    NEWER = "newer"  # it has changed since
    OLDER = "older"  # it has not


class RevisitRank(NamedTuple):
    """How overdue a page is: its age in intervals, and its key, so that no two pages are equal."""

    overdue: float
    key: str


class RevisitPlan(msgspec.Struct, frozen=True, kw_only=True):
    """By what a run chooses the pages that it fetches again; stored with the run."""

    bounds: RevisitBounds
    pages: int | None = None  # the budget
    least: RevisitRank | None = None  # the least overdue page within the budget; None if all are within
    took: timedelta = timedelta(0)  # to make; ages are those at its beginning
    has_sitemaps: bool = False  # whether the run reads sitemaps, so that their dates are those of now

    def judge(
        self, key: str, history: PageHistory, age: timedelta, date: PageDate = PageDate.UNKNOWN
    ) -> tuple[RevisitReason, RevisitRank]:
        """Return whether and why a page is fetched whose last fetch is as old as `age`, and its rank."""
        believed = date if history.wrong_dates < MAX_WRONG_DATES else PageDate.UNKNOWN
        is_old = believed is PageDate.OLDER
        least = max(self.bounds.shortest / PER_CHANGE, timedelta.resolution)
        interval = self.bounds.longest if is_old else max(history.interval, least)
        kept = 1 - shortening(key)
        # Without bounds: else all pages with the shortest interval are alike, also those that change daily.
        rank = RevisitRank(age / (interval * kept), key)
        if believed is PageDate.NEWER:
            return RevisitReason.DATE, rank
        if age < self.bounds.limit(interval) * kept:
            return RevisitReason.NOT_DUE, rank
        is_left = self.least is not None and rank < self.least
        return RevisitReason.OVER_BUDGET if is_left else RevisitReason.DUE, rank


def shortening(key: str) -> float:
    """Return by which share the intervals of a page are shortened; `key` is a hexadecimal hash."""
    least, most = SHORTENED
    return least + (most - least) * int(key[:8], 16) / 16**8
