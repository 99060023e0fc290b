"""Paging does not make a crawl deeper, and a chain without end ends all the same."""

from collections import Counter

import pytest

from shoal.core.model import Task
from shoal.core.request_options import RequestOptions
from shoal.scrape.links import traps
from shoal.scrape.links.filter import LinkFilter
from shoal.scrape.settings.scraper import ScraperSettings

LIST = "https://a.test/list?page={}"


def make_filter(**settings):
    return LinkFilter(ScraperSettings.read(**settings))


def linked(parent, *links):
    """Return the tasks of `page.follow` for pairs of URL and step."""
    return [Task(url=url, step=step, depth=parent.depth + 1) for url, step in links]


def walk(link_filter, links_of, pages, *, dropped=None):
    """Follow a chain of tasks of step `list`; return the pages that were reached, and their depths."""
    task, found = Task(url=LIST.format(0), step="list"), []
    for number in range(1, pages):
        tasks = links_of(task, number)
        passed = link_filter.filter(tasks, task, Counter() if dropped is None else dropped)
        following = [one for one in passed if one.step == "list" and one is not None]
        if not following:
            break
        task = following[-1]
        found.append(task.depth)
    return found


def test_the_next_page_of_a_list_is_as_deep_as_the_list():
    books = [(f"https://a.test/book/{n}", "book") for n in range(20)]
    depths = walk(make_filter(), lambda page, n: linked(page, *books, (LIST.format(n), "list")), 300)
    assert depths == [1] * 299


def test_a_page_with_two_links_to_its_own_step_is_one_level():
    dropped = Counter()
    depths = walk(
        make_filter(),
        lambda page, n: linked(page, *((LIST.format(f"{n}{side}"), "list") for side in "ab")),
        100,
        dropped=dropped,
    )
    assert depths == list(range(1, 21))
    assert dropped == {"too deep": 2}


def crawl_tree(links_of, filters=1, **settings):
    """Follow every link of step `list` breadth first, on several workers; return the depths of the pages."""
    workers = [make_filter(**settings) for _ in range(filters)]
    waiting, known, depths = [Task(url="https://a.test/t", step="list")], {"https://a.test/t"}, []
    while waiting and len(depths) < 5_000:
        task = waiting.pop(0)
        depths.append(task.depth)
        links = linked(task, *((url, "list") for url in links_of(task.url)))
        for one in workers[len(depths) % filters].filter(links, task, Counter()):
            if one.url not in known:
                known.add(one.url)
                waiting.append(one)
    return depths


def test_a_tree_of_pages_with_two_links_each_ends_at_max_depth():
    depths = crawl_tree(lambda url: [f"{url}/0", f"{url}/1"], filters=4, max_depth=4)
    assert len(depths) == 2**5 - 1
    assert max(depths) == 4


def test_links_to_other_steps_are_a_level_however_few():
    parent = Task(url=LIST.format(0), step="list", depth=20)
    dropped = Counter()
    assert make_filter().filter(linked(parent, ("https://a.test/1", "book")), parent, dropped) == []
    assert dropped == {"too deep": 1}


def test_the_first_link_of_a_seed_stays_a_link():
    """A task of depth 0 would be taken for a seed, which the scope does not bind."""
    seed = Task(url=LIST.format(0), step="list")
    (task,) = make_filter().filter(linked(seed, (LIST.format(1), "list")), seed, Counter())
    assert task.depth == 1
    dropped = Counter()
    assert make_filter().filter(linked(seed, ("https://b.test/", "list")), seed, dropped) == []
    assert dropped == {"out of scope": 1}


@pytest.mark.parametrize("kind", ["url", "payload", "post"])
def test_a_chain_without_end_ends_by_its_depth(kind, monkeypatch):
    monkeypatch.setattr(traps, "LIMIT", 100)

    def links(page, n):
        match kind:
            case "url":
                return linked(page, (LIST.format(n), "list"))
            case "payload":
                return [Task(payload={"cursor": n}, step="list")]
        post = RequestOptions.json({"cursor": n})
        return [Task(url=LIST.format(0), step="list", request=post, depth=page.depth + 1)]

    dropped = Counter()
    assert len(walk(make_filter(), links, 1_000, dropped=dropped)) in (100 + 19, 100 + 20)
    assert dropped == {"too deep": 1}


@pytest.mark.parametrize(
    ("page", "link"),
    [
        ("list", "list?page=2"),
        ("list/", "list/page/2/"),
        ("list?page=2", "list?page=40"),
        ("list?q=a&page=2", "list?q=a&page=3"),
        ("list?q=a", "list?page=2&q=a"),
        ("list?start=20", "list?start=40"),
        ("list/page/2", "list/page/3"),
        ("list-page-2.html", "list-page-3.html"),
        ("list.html", "list-page-2.html"),
        ("", "page/2"),
    ],
)
def test_another_page_of_a_list_adds_no_depth_among_many_links(page, link):
    parent = Task(url=f"https://a.test/{page}", step="list", depth=20)
    links = [(f"https://a.test/{link}", "list"), *((f"https://a.test/book/{n}", "list") for n in range(50))]
    dropped = Counter()
    (passed,) = make_filter().filter(linked(parent, *links), parent, dropped)
    assert (passed.url, passed.depth) == (f"https://a.test/{link}", 20)
    assert dropped == {"too deep": 50}


@pytest.mark.parametrize(
    ("page", "link"),
    [
        ("list?page=2", "other?page=3"),
        ("list?q=a&page=2", "list?q=b&page=3"),
        ("product/1", "product/2"),
        ("p/1", "p/2"),
        ("list", "list?id=2"),
    ],
)
def test_a_link_that_differs_in_more_than_its_page_number_is_a_level(page, link):
    parent = Task(url=f"https://a.test/{page}", step="list", depth=20)
    links = [(f"https://a.test/{link}", "list"), *((f"https://a.test/book/{n}", "list") for n in range(50))]
    assert make_filter().filter(linked(parent, *links), parent, Counter()) == []
