"""An ordinary site is crawled whole, and a site without end is left: by a fleet, with a lower limit."""

from random import Random

import pytest

from shoal.scrape.links import traps
from tests.cases import long
from tests.unit.scrape.generated_sites import GENERATED
from tests.unit.scrape.links.fleet_crawl import HOME, FleetCrawl

LIMIT = 200  # in place of thousands
WORKERS = 4


@pytest.fixture(autouse=True)
def low_limit(monkeypatch):
    monkeypatch.setattr(traps, "LIMIT", LIMIT)


def tree(*sizes):
    """Return a site whose pages branch as `sizes` says, all in one folder."""

    def links_of(url):
        place = [] if url == HOME else url.removeprefix(f"{HOME}shop/").split("-")
        if len(place) == len(sizes):
            return [HOME]
        return [HOME] + [f"{HOME}shop/{'-'.join([*place, str(n)])}" for n in range(sizes[len(place)])]

    return links_of


def categories(url):
    """Many categories, of which each lists products of the same folder."""
    if url == HOME:
        return [f"{HOME}c/category-{n}" for n in range(LIMIT // 2)]
    number = int(url.rpartition("-")[2])
    return [f"{HOME}c/product-{number * 10 + n}" for n in range(10)] if "category" in url else []


def encyclopaedia(url):
    chance = Random(url)
    return [HOME] + [f"{HOME}wiki/Article_{chance.randrange(5 * LIMIT)}" for _ in range(15)]


def forum(url):
    """Boards of topics, each of several pages; every URL has three parameters."""
    if url == HOME:
        return [f"{HOME}index.php?view=board&sort=new&board={n}" for n in range(LIMIT // 20)]
    if "view=board" in url:
        board = int(url.rpartition("=")[2])
        return [f"{HOME}index.php?view=topic&sort=new&topic={board * 50 + n}" for n in range(50)]
    return [f"{url}&page={n}" for n in (2, 3)] if "page=" not in url else []


def paged(url):
    page = int(url.partition("page=")[2] or 1)
    if "/item/" in url:
        return [HOME]
    following = [f"{HOME}list?page={n}" for n in (page - 1, page + 1) if 0 < n <= 40]
    return [*following, *(f"{HOME}item/{page * 10 + n}" for n in range(10))]


ORDINARY = {
    "shop": tree(20, 20),
    "pages with parts": tree(7, 7, 9, 3),  # six times as many pages with parts as the limit
    "categories": categories,
    "encyclopaedia": encyclopaedia,
    "forum": forum,
    "paged": paged,
}


def reachable(links_of):
    seen, queue = {HOME}, [HOME]
    for url in queue:
        fresh = dict.fromkeys(link for link in links_of(url) if link not in seen)
        seen.update(fresh)
        queue.extend(fresh)
    return seen


SHORT_ORDINARY = ("pages with parts", "paged")


@pytest.mark.parametrize("site", [*SHORT_ORDINARY, *long(*sorted(ORDINARY.keys() - set(SHORT_ORDINARY)))])
def test_an_ordinary_site_is_crawled_whole(site):
    crawl = FleetCrawl(ORDINARY[site], workers=WORKERS).run(10**5)
    assert not crawl.dropped
    assert set(crawl.visited) == reachable(ORDINARY[site])


def maze(branching):
    def links_of(url):
        chance = Random(url)
        up = [url, HOME, url.rpartition("/")[0] + "/"]
        return up + [f"{HOME}wiki/{chance.getrandbits(60):x}" for _ in range(branching)]

    return links_of


def relative_loop(url):
    return [f"{url}{name}/" for name in "abc"]


def folders(url):
    chance = Random(url)
    return [f"{HOME}{chance.getrandbits(40):x}q/{chance.getrandbits(40):x}" for _ in range(10)]


def permutations(url):
    chance = Random(url)
    given = dict(one.split("=") for one in url.partition("?")[2].split("&") if one)
    names = {"sort": "abcd", "order": ["asc", "desc"]} | {f"f{n}": "0123456789" for n in range(9)}
    chosen = [given | {name: chance.choice(names[name])} for name in chance.sample(sorted(names), 8)]
    return [f"{HOME}list?" + "&".join(f"{key}={value}" for key, value in one.items()) for one in chosen]


def generated(site):
    def links_of(url):
        path, _, query = url.removeprefix(HOME[:-1]).partition("?")
        links = site(path, dict(param.partition("=")[::2] for param in query.split("&") if param))
        return [HOME[:-1] + link for link in links]

    return links_of


ENDLESS = {
    "maze of 2": (maze(2), "maze in a.test/wiki/"),
    "maze of 50": (maze(50), "maze in a.test/wiki/"),
    "relative loop": (relative_loop, "repeated names on a.test"),
    "folders": (folders, "maze in a.test/#q/"),
    "permutations": (permutations, "filters on a.test"),
    **{site.__name__: (generated(site), None) for site in GENERATED},
}


SHORT_ENDLESS = ("maze of 2", "relative loop", "next_month")


@pytest.mark.parametrize("site", [*SHORT_ENDLESS, *long(*sorted(ENDLESS.keys() - set(SHORT_ENDLESS)))])
def test_a_site_without_end_is_left(site):
    links_of, trap = ENDLESS[site]
    most = 30 * LIMIT  # of filters, the URLs with one and two parameters are finite, and fetched as well
    crawl = FleetCrawl(links_of, workers=WORKERS).run(most)
    assert len(crawl.visited) < most
    assert f"trap: {trap}" in crawl.dropped if trap else crawl.dropped
