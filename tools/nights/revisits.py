"""Simulates which pages a nightly run with `revisit` fetches, and how late it sees their changes."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from math import exp

from shoal.core.revisits import PageDate, PageHistory, RevisitBounds, RevisitPlan, RevisitReason
from shoal.scrape.settings.storage import read_revisit

DAY = timedelta(days=1)
Rates = Sequence[tuple[float, float]]  # a share of the pages, and how often each changes in a day, on average

SITES: dict[str, Rates] = {
    "some pages change every day or week, most never": [(0.06, 1.0), (0.09, 1 / 7), (0.85, 0.0)],
    "some every day or week, most once a year": [(0.05, 1.0), (0.15, 1 / 7), (0.8, 1 / 365)],
    "all alike, once in 20 days": [(1.0, 0.05)],
}
CASES: list[tuple[str, float, int | None]] = [  # bounds, share of pages with a date, budget
    ("1d..3d", 0.0, None),
    ("1d..7d", 0.0, None),
    ("1d..30d", 0.0, None),
    ("2d..30d", 0.0, None),
    ("1d..7d", 0.5, None),
    ("1d..30d", 0.5, None),
    ("1d..30d", 1.0, None),
    ("1d..30d", 0.0, 2_000),
    ("1d..30d", 0.0, 1_000),
]


@dataclass
class Page:
    """A page of the site."""

    key: str
    rate: float
    has_date: bool
    history: PageHistory = field(default_factory=PageHistory)
    fetched: float = 0.0  # the day of the last fetch
    changed: list[float] = field(default_factory=list)  # days since then

    def date(self) -> PageDate:
        """Return what the sitemap says about the page."""
        if not self.has_date:
            return PageDate.UNKNOWN
        return PageDate.NEWER if self.changed else PageDate.OLDER


@dataclass
class Figures:
    """What the runs of all nights but the first fetched and saw."""

    fetched: int = 0
    known: int = 0
    delays: list[float] = field(default_factory=list)  # in days, of each change

    def row(self) -> str:
        """Return the cells of the table."""
        late = sum(delay > 1 for delay in self.delays) / len(self.delays)
        ordered = sorted(self.delays)
        seen = ", ".join(f"{ordered[int(part * (len(ordered) - 1))]:.1f}" for part in (0.5, 0.9, 0.99))
        return f"{self.fetched / self.known:.1%} | {late:.1%} | {seen}"


def simulate(
    rates: Rates,
    bounds: str,
    *,
    dated: float = 0.0,
    pages: int = 5_000,
    nights: int = 60,
    budget: int | None = None,
    seed: int = 1,
) -> Figures:
    """Let nights pass; pages change at random moments."""
    rng, figures = random.Random(seed), Figures()
    read = read_revisit("revisit", bounds)
    assert read
    plan = RevisitPlan(bounds=read, has_sitemaps=True)
    site = [
        Page(f"{rng.getrandbits(32):08x}", rate, rng.random() < dated)
        for share, rate in rates
        for _ in range(round(share * pages))
    ]
    for night in range(nights + 1):
        for page in site:
            page.changed += _moments(rng, page.rate, night) if night else []
        for page in _chosen(site, plan, night, budget):
            _fetch(page, plan.bounds, night, figures)
        figures.known += len(site) if night else 0
    for page in site:  # what nobody has seen is late, if it had a night for it
        figures.delays += [nights + 1 - moment for moment in page.changed if moment < nights]
    return figures


def _moments(rng: random.Random, rate: float, night: int) -> list[float]:
    """Return when a page changed in the day before a night."""
    found, moment = [], rng.expovariate(rate) if rate else 1.0
    while moment < 1:
        found.append(night - 1 + moment)
        moment += rng.expovariate(rate)
    return found


def _chosen(site: list[Page], plan: RevisitPlan, night: int, budget: int | None) -> list[Page]:
    if not night:
        return site
    judged = [
        (*plan.judge(page.key, page.history, (night - page.fetched) * DAY, page.date()), page)
        for page in site
    ]
    due = sorted(
        ((rank, page) for reason, rank, page in judged if reason is RevisitReason.DUE),
        key=lambda one: one[0],
        reverse=True,
    )
    dated = [page for reason, _, page in judged if reason is RevisitReason.DATE]
    return dated + [page for _, page in due][:budget]


def _fetch(page: Page, bounds: RevisitBounds, night: int, figures: Figures) -> None:
    date, age = page.date(), (night - page.fetched) * DAY
    page.history = page.history.after_visit(bounds, age, changed=bool(page.changed), date=date)
    figures.fetched += night > 0
    figures.delays += [night - moment for moment in page.changed]
    page.fetched, page.changed = night, []


def show(pages: int, nights: int) -> None:
    """Print a table."""
    for name, rates in SITES.items():
        daily = sum(share * (1 - exp(-rate)) for share, rate in rates)
        print(f"{name}: each day {daily:.1%} of the pages change")
        for bounds, dated, budget in CASES:
            figures = simulate(rates, bounds, dated=dated, pages=pages, nights=nights, budget=budget)
            limit = f", `revisit_pages={budget}`" if budget else ""
            print(f"| `{bounds}`{limit} | {dated:.0%} | {figures.row()} |", flush=True)
