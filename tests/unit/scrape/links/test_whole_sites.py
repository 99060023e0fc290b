"""An ordinary site is crawled whole, and a site without end is left after at most 20,000 pages."""

from random import Random

import pytest

from tests.cases import long
from tests.unit.scrape.links.fleet_crawl import HOME, FleetCrawl

MAX_PAGES = 20_000


def tree(*sizes, prefix="shop"):
    """Return a site whose pages branch as `sizes` says, all in one folder."""

    def links_of(url):
        place = [] if url == HOME else url.removeprefix(f"{HOME}{prefix}/").split("-")
        if len(place) == len(sizes):
            return [HOME]
        return [HOME] + [f"{HOME}{prefix}/{'-'.join([*place, str(n)])}" for n in range(sizes[len(place)])]

    return links_of


def size_of(*sizes):
    total = level = 1
    for size in sizes:
        level *= size
        total += level
    return total


def recurring(url):
    if url == HOME:
        return [f"{HOME}docs/a{n}/docs/" for n in range(70)]
    return [f"{url}b{n}/docs/c" for n in range(100)] if url.count("docs") == 2 else []


def forum(url):
    """Topics that are linked as sorted views only, each of several pages."""
    if url == HOME:
        return [f"{HOME}board/{n}" for n in range(40)]
    path, _, query = url.partition("?")
    if "/board/" in path:
        board = int(path.rpartition("/")[2])
        return [f"{HOME}topic/{board * 100 + n}?sort={by}" for n in range(100) for by in ("old", "new")]
    return [f"{path}?{query}&page={n}" for n in (2, 3)] if "page" not in query else []


def encyclopaedia(url):
    chance = Random(url)
    return [HOME] + [f"{HOME}wiki/Article_{chance.randrange(30_000)}" for _ in range(30)]


def calendar_of_twenty_years(url):
    parts = url.removeprefix(f"{HOME}calendar/").split("/") if url != HOME else []
    if not parts:
        return [f"{HOME}calendar/{year}" for year in range(2006, 2026)]
    if len(parts) == 1:
        return [f"{url}/{month:02}" for month in range(1, 13)]
    if len(parts) == 2:
        return [f"{url}/{day:02}" for day in range(1, 31)]
    return [f"{url}/event-{n}" for n in range(3)] if len(parts) == 3 else []


def versions(url):
    if url == HOME:
        return [f"{HOME}v{n}/" for n in range(1, 31)]
    base = "/".join(url.split("/")[:4])
    pages = [f"{base}/{part}/" for part in range(20)]
    if url.count("/") == 4:
        return pages
    return [*pages, *(f"{url}page{n}.html" for n in range(25))] if url.endswith("/") else pages


def paged(url):
    """A list of 100 pages, all of its links in one step."""
    page = int(url.partition("page=")[2] or 1)
    if "/item/" in url:
        return [HOME]
    following = [f"{HOME}list?page={n}" for n in (page - 1, page + 1) if 0 < n <= 100]
    return [*following, *(f"{HOME}item/{page * 50 + n}" for n in range(50))]


SITES = {
    "shop": (tree(150, 100), size_of(150, 100)),
    "large shop": (tree(1000, 100), size_of(1000, 100)),
    "manual": (tree(100, 100), size_of(100, 100)),
    "blog": (tree(20, 12, 84), size_of(20, 12, 84)),
    "tree": (tree(70, 72, 20), size_of(70, 72, 20)),
    "wide tree": (tree(25, 25, 40, 3), size_of(25, 25, 40, 3)),
    "recurring paths": (recurring, 1 + 70 + 7000),
    "forum": (forum, 1 + 40 + 4000 * 2 * 3),
    "encyclopaedia": (encyclopaedia, None),
    "calendar": (calendar_of_twenty_years, 1 + 20 + 240 + 7200 + 21600),
    "versions": (versions, 1 + 30 + 600 + 15000),
    "paged": (paged, 1 + 99 + 1 + 5000),
}


def reachable(links_of):
    seen, queue = {HOME}, [HOME]
    for url in queue:
        for link in links_of(url):
            if link not in seen:
                seen.add(link)
                queue.append(link)
    return seen


# Of minutes of processor time, and alike to others: trees, mazes and filters.
FULL = ("large shop", "wide tree", "tree", "maze of 100", "permutations", "facets")
SHORT = ("shop", "paged", "maze of 2", "sessions")


def cases(sites, *values):
    """Return the sites with these values, each with the marker of its tier."""
    tiers = {site: [pytest.mark.full] if site in FULL else [pytest.mark.long] for site in sites}
    return [pytest.param(site, *values, marks=[] if site in SHORT else tiers[site]) for site in sites]


@pytest.mark.parametrize(("site", "workers"), [*cases(SITES, 4), *long(("shop", 1))])
def test_an_ordinary_site_is_crawled_whole(site, workers):
    links_of, _ = SITES[site]
    crawl = FleetCrawl(links_of, workers=workers).run(10**6)
    assert not crawl.dropped
    assert set(crawl.visited) == reachable(links_of)


def maze(branching, self_links=True):
    def links_of(url):
        chance = Random(url)
        up = [url, HOME, url.rpartition("/")[0] + "/"] if self_links else []
        return up + [f"{HOME}wiki/{chance.getrandbits(60):x}" for _ in range(branching)]

    return links_of


def sessions(url):
    token = f"{Random(url).getrandbits(128):032x}"
    return [f"{HOME}{token}/{place}" for place in ("", "about", *(f"product/{n}" for n in range(8)))]


def relative_loop(url):
    return [f"{url}{name}/" for name in "abc"]


def folders(url):
    chance = Random(url)
    return [f"{HOME}{chance.getrandbits(40):x}q/{chance.getrandbits(40):x}" for _ in range(10)]


def permutations(url):
    chance = Random(url)
    given = dict(one.split("=") for one in url.partition("?")[2].split("&") if one)
    names = {"sort": "abcd", "order": ["asc", "desc"]} | {f"f{n}": "0123456789" for n in range(9)}
    found = []
    for name in chance.sample(sorted(names), 8):
        one = given | {name: chance.choice(names[name])}
        found.append(f"{HOME}list?" + "&".join(f"{key}={value}" for key, value in one.items()))
    return found


def facets(url):
    chance = Random(url)
    given = dict(one.split("=") for one in url.partition("?")[2].split("&") if one)
    filters = [(f"facet{name}", str(value)) for name in "abcdefghi" for value in range(10)]
    chosen = [dict(sorted((given | dict([one])).items())) for one in chance.sample(filters, 20)]
    return [f"{HOME}shop?" + "&".join(f"{name}={value}" for name, value in one.items()) for one in chosen]


def endless_calendar(url):
    month = url.partition("month=")[2] or "2026-06"
    if "date=" in url:
        return []
    year, number = map(int, month.split("-"))
    months = [divmod(year * 12 + number - 1 + step, 12) for step in (-1, 1)]
    days = [f"{HOME}calendar/day?date={month}-{day:02}" for day in range(1, 29)]
    return [*(f"{HOME}calendar?month={max(y, 1):04}-{m + 1:02}" for y, m in months), *days]


TRAPS = {
    "maze of 2": maze(2),
    "maze of 2 without links up": maze(2, self_links=False),
    "maze of 10": maze(10),
    "maze of 100": maze(100),
    "sessions": sessions,
    "relative loop": relative_loop,
    "folders": folders,
    "permutations": permutations,
    "facets": facets,
    "calendar": endless_calendar,
}


# Alone or newest first only where a crawl takes few seconds.
QUICK = ("maze of 2", "maze of 10", "sessions")


@pytest.mark.parametrize(
    ("site", "workers", "newest_first"),
    [*cases(TRAPS, 4, False), *long(*((site, 1, True) for site in QUICK))],
)
@pytest.mark.timeout(400)  # seconds: it is all processor time, beside other tests
def test_a_site_without_end_is_left_after_at_most_20_000_pages(site, workers, newest_first):
    crawl = FleetCrawl(TRAPS[site], workers=workers, newest_first=newest_first).run(MAX_PAGES)
    assert len(crawl.visited) <= MAX_PAGES
    # A calendar leads from month to month, so that its depth ends it first.
    assert any(reason.startswith("trap: ") or reason == "too deep" for reason in crawl.dropped)


def flat(url):
    """A page that links thousands of others, each with subpages of its own."""
    if url == HOME:
        return [f"{HOME}c/{n}" for n in range(12_000)]
    return [f"{url}/{n}" for n in range(3)] if url.count("/") == 4 else []


def test_a_flat_site_is_crawled_whole_up_to_its_depth():
    crawl = FleetCrawl(flat, workers=1, max_depth=1).run(10**6)
    assert len(crawl.visited) == 12_001 and set(crawl.dropped) == {"too deep"}


PRIORITIES = {"all": lambda url: 9, "some": lambda url: 5 if url.count("/") == 4 else 0}


@pytest.mark.parametrize("which", ["some", *long("all")])
def test_a_site_whose_links_have_priorities_is_crawled_whole(which):
    crawl = FleetCrawl(flat, workers=1, priority=PRIORITIES[which]).run(10**6)
    assert len(crawl.visited) == 48_001 and not crawl.dropped
