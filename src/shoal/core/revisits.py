"""When a page is fetched again: decided from how often it was found changed; no clock, no I/O."""

from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

import msgspec

SHORTENED = 0.05, 0.25  # of an interval, differently for each page: else all would fall due in one night
FASTER, SLOWER = 0.5, 1.5
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

    interval: timedelta = timedelta(0)  # until the next fetch; zero if none is known
    visits: int = 0
    changes: int = 0
    wrong_dates: int = 0  # in a row: the date of a sitemap or feed said otherwise than the page

    def after_visit(self, bounds: RevisitBounds, *, changed: bool, date: "PageDate") -> "PageHistory":
        """Return the history after one more fetch."""
        factor = (FASTER if changed else SLOWER) if self.visits else 0.0
        wrong, is_newer = self.wrong_dates, date is PageDate.NEWER
        if is_newer or (changed and date is PageDate.OLDER):  # else the date has proved nothing
            wrong = 0 if is_newer and changed else wrong + 1
        interval = bounds.limit(factor * bounds.limit(self.interval))
        return PageHistory(interval, self.visits + 1, self.changes + changed, wrong)


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
        interval = self.bounds.longest if is_old else self.bounds.limit(history.interval)
        rank = RevisitRank(age / (interval * (1 - shortening(key))), key)
        if believed is PageDate.NEWER:
            return RevisitReason.DATE, rank
        if rank.overdue < 1:
            return RevisitReason.NOT_DUE, rank
        is_left = self.least is not None and rank < self.least
        return RevisitReason.OVER_BUDGET if is_left else RevisitReason.DUE, rank


def shortening(key: str) -> float:
    """Return by which share the intervals of a page are shortened; `key` is a hexadecimal hash."""
    least, most = SHORTENED
    return least + (most - least) * int(key[:8], 16) / 16**8
