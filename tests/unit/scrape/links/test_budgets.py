"""Budgets that many workers share: the total counts, and a URL that two workers find counts once."""

from datetime import date

import pytest

from shoal.scrape.links import budgets
from shoal.scrape.links.budgets import PER_FACET_VALUE, PER_PAIR_VALUE, ShapeBudgets
from shoal.scrape.links.shape import url_parts
from shoal.scrape.links.sketch import Sketch

CALENDAR, FACETS, PAIRS = 300, 300, 500  # in place of thousands
KEY, TODAY = b"run", date(2026, 6, 1)


@pytest.fixture(autouse=True)
def small_budgets(monkeypatch):
    for name, limit in {"CALENDAR": CALENDAR, "FACETS": FACETS, "PAIRS": PAIRS}.items():
        monkeypatch.setattr(budgets, name, limit)


class Fleet:
    """The budgets of some workers, and the counts they have exchanged."""

    def __init__(self, count, most=None):
        self.workers = [ShapeBudgets(most) for _ in range(count)]
        self.notes = {}
        for worker in self.workers:
            worker.set_shared_key(KEY)

    def tell(self):
        """Let each worker exchange its counts once."""
        for worker in self.workers:
            kinds = worker.unshared(20)
            self.notes |= worker.exchange({kind: self.notes.get(kind) for kind in kinds})

    def visit(self, urls, *, each=False):
        """Distribute URLs over the workers, or give all to each; return the number that was allowed."""
        paid = 0
        for number, url in enumerate(urls):
            if number % 50 == 0:
                self.tell()
            whose = self.workers if each else [self.workers[number % len(self.workers)]]
            taken = [worker.spend(url, url_parts(url), TODAY) is None for worker in whose]
            paid += any(taken)
        return paid


def facets(count):
    """Return endless filters of a shop: few values in ever new combinations."""
    return [f"http://a.example/s?a={n % 5}&b={n // 5 % 5}&c={n // 25 % 5}&d={n // 125}" for n in range(count)]


def calendar(count):
    return [f"http://a.example/calendar/2026/{1 + n % 12}?p={n}" for n in range(count)]


@pytest.mark.parametrize("workers", [1, 4, 16])
def test_a_fleet_pays_about_as_much_for_a_trap_as_one_worker(workers):
    paid = Fleet(workers).visit(calendar(6_000))
    assert (
        CALENDAR <= paid <= CALENDAR * 1.05 + 10 * workers + 50
    )  # each worker's first ten, and one interval


def test_without_telling_each_worker_pays_for_all_of_it():
    fleet = Fleet(8)
    fleet.tell = lambda: None
    assert fleet.visit(calendar(6_000)) == 8 * CALENDAR


@pytest.mark.parametrize("workers", [1, 8])
def test_what_all_workers_meet_is_paid_for_once(workers):
    # A real calendar just below the limit: every worker finds every page, and none is skipped.
    sheets = calendar(CALENDAR - 15)
    assert Fleet(workers).visit(sheets, each=True) == len(sheets)


def test_values_that_others_have_seen_make_the_budget_as_large_for_all():
    # Many values, of which no single worker sees the majority: a catalogue, not a trap.
    values = 400
    pages = [f"http://a.example/list?cat={n % values}&page={n // values}" for n in range(40 * values)]
    assert Fleet(8).visit(pages) == len(pages) < PAIRS + PER_PAIR_VALUE * values


def test_filters_of_few_values_cost_a_fleet_what_they_cost_one():
    alone = Fleet(1).visit(facets(12_000))
    together = Fleet(8).visit(facets(12_000))
    assert FACETS < alone < 12_000
    assert 0.9 * alone <= together <= 1.2 * alone + 8 * (10 + PER_FACET_VALUE)


def test_a_small_budget_is_shared_before_it_is_used_up():
    paid = Fleet(10, most=6).visit([f"http://a.example/item/{n}" for n in range(1_000)])
    assert 6 <= paid <= 10 * 6


def test_shared_counts_are_confirmed_before_they_count_as_shared():
    (worker,) = Fleet(1).workers
    for url in calendar(20):
        worker.spend(url, url_parts(url), TODAY)
    (kind,) = worker.unshared(20)
    news = worker.exchange({kind: None})
    assert worker.unshared(20) == [kind]  # it may not have been written
    assert worker.exchange(news) == {}
    assert worker.unshared(20) == []


def test_a_note_of_another_make_is_passed_over():
    sketch = Sketch(64, KEY)
    assert sketch.from_bytes(b"too short") == 0 and sketch.from_bytes(sketch.to_bytes()) == 0
