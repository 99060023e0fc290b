"""Each rule against spider traps: which pages it counts, what it refuses after the limit, and its name."""

from random import Random

import pytest

from shoal.core.model import Task
from shoal.scrape.links import traps
from shoal.scrape.links.traps import (
    ENDED,
    LIMIT,
    MAX_FOLDERS,
    TrapCounts,
    TrapRules,
)
from shoal.scrape.links.url_parts import url_parts

SITE = "https://a.test/"
LOW = 100  # in place of thousands


@pytest.fixture(autouse=True)
def low_limit(monkeypatch):
    monkeypatch.setattr(traps, "LIMIT", LOW)


def fetch(rules, urls, *, new=0, cross_links=0, depth=3):
    """Fetch pages until a rule refuses one; return how many were fetched, and the trap."""
    for number, url in enumerate(urls):
        if trap := rules.find(url):
            return number, trap
        rules.count_page(Task(url=url, depth=depth), new, cross_links)
    return len(urls), None


def pages(form, count=10 * LOW):
    return [SITE + form.format(n=n, few=n % 7, some=n // 7 % 7, more=n // 49) for n in range(count)]


RULES = [
    # the pages, the new pages that each leads to, and how many are fetched until the rule refuses the rest
    ("maze in a.test/wiki/", "wiki/x{n}", 2, LOW),
    ("maze in a.test/list?", "list?id={n}", 2, LOW),
    ("filters on a.test", "shop?color={few}&size={some}&brand={more}", 1, LOW + 35),
    ("filters on a.test", "shop?color={few}&size={some}&brand={more}&page=1", 1, LOW + 35),
    ("repeated names on a.test", "docs/{n}/docs/x/docs", 1, LOW),
]


@pytest.mark.parametrize(("trap", "form", "new", "fetched"), RULES)
def test_a_rule_refuses_the_pages_that_fit_it_after_the_limit(trap, form, new, fetched):
    rules = TrapRules(None)
    assert fetch(rules, pages(form), new=new) == (fetched, trap)
    assert rules.follow(pages(form)[-1]) == trap, "new links of it are not followed"
    assert rules.find(f"{SITE}about") is None, "other pages of the site are fetched"


ORDINARY = [
    ("product/{n}", 0),  # pages without new links
    ("product/{n}", 1),  # a chain
    ("viewtopic.php?f={few}&t={n}&view=all", 0),  # as many values of an id as pages
    ("viewtopic.php?f={few}&t={n}&view=all&start={some}", 0),
    ("list?category={few}&color={some}&page={more}", 0),  # two filters and a page number
    ("docs/{n}/docs/x", 0),
    ("{few}/{few}/{few}/{few}/{n}", 0),  # numbers
]


@pytest.mark.parametrize(("form", "new"), ORDINARY)
def test_ordinary_pages_are_fetched_without_limit(form, new):
    urls = pages(form)
    assert fetch(TrapRules(None), urls, new=new) == (len(urls), None)


def test_seeds_are_not_counted():
    urls = pages("wiki/x{n}")
    assert fetch(TrapRules(None), urls, new=5, depth=0) == (len(urls), None)


def test_a_page_that_ends_somewhere_or_that_several_others_lead_to_is_no_maze():
    for ending in ({"new": 1}, {"new": 2, "cross_links": 1}):
        rules = TrapRules(None)
        for _ in range(20):
            assert fetch(rules, pages("wiki/x{n}", ENDED), new=2)[1] is None
            assert fetch(rules, pages("wiki/y{n}", 1), **ending)[1] is None


IN_A_MAZE = [
    # a page, a link of it, and whether it would be one of a maze
    ("wiki/a", "wiki/b", True),
    ("list?id=1", "list?id=2", True),
    ("wiki/a", "shop/b", False),
    ("product/1", "product/1/reviews", False),
    ("product/1.html", "product/1-reviews.html", False),
    ("photo/1/", "photo/1/?size=large", False),
    ("product/1", "product/12", True),
    ("a/b/c/d", "a/b/c/d/e", True),  # so deep that wrong relative links are more likely
]


@pytest.mark.parametrize(("page", "link", "is_part"), IN_A_MAZE)
def test_a_maze_leads_to_pages_of_its_section_that_are_not_below_the_page(page, link, is_part):
    assert TrapRules(None).is_part_of_maze(SITE + link, SITE + page) is is_part


def test_after_the_limit_of_a_section_paging_adds_depth_again():
    rules = TrapRules(None)
    allowed = [rules.may_page(Task(url=f"{SITE}list?page={n}")) for n in range(2 * LOW)]
    assert allowed == [True] * LOW + [False] * LOW
    assert rules.may_page(Task(url=f"{SITE}other?page=1"))
    assert [rules.may_page(Task(step="api")) for _ in range(2 * LOW)] == allowed
    assert all(TrapRules(5).may_page(Task(step="api")) for _ in range(2 * LOW)), "max_per_pattern lifts it"


def test_max_per_pattern_is_the_only_rule():
    rules = TrapRules(10**6)
    for trap, form, new, _ in RULES:
        assert fetch(rules, pages(form), new=new)[1] is None, trap


def test_made_up_folders_are_one_section_in_the_end():
    rules, chance = TrapRules(None), Random(1)
    names = ["".join(chance.choices("abcdefgh", k=8)) for _ in range(5 * MAX_FOLDERS)]
    sections = {rules.section_of(url_parts(f"{SITE}{name}/x")) for name in names}
    assert len(sections) == MAX_FOLDERS + 1 and "a.test/*/" in sections


class Fleet:
    """The counts of some workers, which share them after each round."""

    def __init__(self, workers, limit):
        self.workers, self.total = [TrapCounts(limit) for _ in range(workers)], 0

    def fetch(self, rounds):
        fetched = 0
        for _ in range(rounds):
            for worker in self.workers:
                if "x" not in worker.closed:
                    worker.add("x")
                    fetched += 1
            for worker in self.workers:
                for pages in worker.unshared().values():
                    self.total += pages
                    worker.set_shared("x", pages, self.total)
        return fetched


@pytest.mark.parametrize(("workers", "limit"), [(1, LIMIT), (8, LIMIT), (8, 10)])
def test_a_fleet_exceeds_a_limit_by_one_percent_for_each_worker(workers, limit):
    fetched = Fleet(workers, limit).fetch(2 * limit)
    assert limit <= fetched <= limit + workers * max(1, limit // 100)


def test_pages_that_are_taken_back_are_taken_back_from_the_fleet():
    counts = TrapCounts(LIMIT)
    counts.add("x", 500)
    counts.set_shared("x", 500, total=900)
    counts.add("x", -500)
    assert counts.unshared() == {"x": -500}
    counts.set_shared("x", -500, total=400)
    assert not counts.unshared()


def test_what_is_remembered_of_traps_is_bounded():
    rules = TrapRules(5)
    for number in range(traps.MAX_GROUPS + 500):
        rules.follow(f"{SITE}{chr(97 + number % 26)}{chr(97 + number // 26 % 26)}{chr(97 + number // 676)}")
    assert len(rules._followed) == traps.MAX_GROUPS
