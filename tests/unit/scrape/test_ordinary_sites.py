"""Models of large ordinary sites: none of their links is skipped."""

from collections import Counter, deque
from random import Random

import pytest

from shoal.core.http import Response
from shoal.core.model import Task
from shoal.scrape.page import Page
from shoal.scrape.scraper import Scraper

HOME = "https://ordinary.test"
MAX_PAGES = 1_200  # pages of each
WORDS = [
    "amber",
    "birch",
    "cedar",
    "delta",
    "ember",
    "flint",
    "grove",
    "heath",
    "ivory",
    "jade",
    "karst",
    "larch",
]


def shop(path, params):
    if path == "/":
        return None, [f"/list?cat={number}&page=1" for number in range(200)]
    if path == "/list":
        cat, page = int(params["cat"]), int(params["page"])
        following = [f"/list?cat={cat}&page={min(25, page + step)}" for step in (1, 2, 5)]
        return None, [*(f"/product/{cat * 500 + page * 20 + n}" for n in range(20)), *following]
    return path, []


def wiki(path, params):
    chance = Random(path)
    return path, [f"/wiki/{'_'.join(chance.choices(WORDS, k=4)).title()}" for _ in range(12)]


def forum(path, params):
    if path == "/":
        return None, [f"/viewforum.php?f={number}&start=0" for number in range(10)]
    number, start = int(params["f"]), int(params["start"])
    if path == "/viewforum.php":
        topics = [
            f"/viewtopic.php?f={number}&t={number * 1000 + start + n}&start={s}"
            for n in range(25)
            for s in (0, 10)
        ]
        return None, [*topics, f"/viewforum.php?f={number}&start={start + 25}"]
    return f"{path}{params}", []


def content_system(path, params):
    form = "/index.php?option=com_content&view={}&id={}&Itemid=3"
    if not params:
        return None, [form.format("category", number) for number in range(50)]
    if params["view"] == "category":
        return None, [form.format("article", int(params["id"]) * 100 + n) for n in range(100)]
    return str(params), []


def one_long_list(path, params):
    if path == "/":
        return None, ["/p/all"]
    if path == "/p/all":
        return None, [f"/p/item-{WORDS[n % 12]}-{n}" for n in range(5_000)]
    return path, ["/p/all"]


def one_folder(path, params):
    if path == "/":
        return None, ["/catalogue/page-1.html"]
    if "page-" not in path:
        return path, ["/"]
    number = int(path.removesuffix(".html").rpartition("-")[2])
    books = [f"/catalogue/book_{number * 20 + n}/index.html" for n in range(20)]
    return None, [*books, *(f"/catalogue/page-{number + n}.html" for n in range(1, 10))]


def newspaper(path, params):
    parts = path.strip("/").split("/")
    if parts == [""]:
        return None, [f"/archive/{year}/{month:02}/" for year in range(1990, 2027) for month in range(1, 13)]
    if parts[0] == "archive":
        return None, [f"/{parts[1]}/{parts[2]}/{day:02}/{WORDS[day % 12]}-{parts[1]}" for day in range(1, 29)]
    return path, ["/"]


def code_host(path, params):
    parts = path.strip("/").split("/")
    if parts == [""]:
        return None, [*(f"/org{a}/repo{b}" for a in range(60) for b in range(5)), "/django/django"]
    repository = "/".join(parts[:2])
    files = [f"/{repository}/blob/main/{parts[1]}/{word}.py" for word in WORDS]
    return path, [*files, *(f"/{repository}/issues/{number}" for number in range(10))]


def crawl(site):
    """Follow every link of a site and return the skipped links; only some pages give an item."""
    scraper = Scraper("ordinary", max_depth=10_000)

    @scraper.step
    def everything(page):
        if page.text("h1"):
            yield {"title": page.text("h1"), "url": page.url}
        for link in page.links():
            yield page.follow(link)

    waiting, known, dropped, chance = deque([f"{HOME}/"]), {f"{HOME}/"}, Counter(), Random(1)
    for _ in range(MAX_PAGES):
        if not waiting:
            break
        waiting.rotate(chance.randrange(len(waiting)))
        url = waiting.popleft()
        harvest = scraper.first.harvest(
            Page(Response(url=url, status=200, body=rendered(site, url)), Task(url=url))
        )
        dropped += harvest.dropped
        fresh = [task.url for task in harvest.follow if task.url not in known]
        known.update(fresh)
        waiting.extend(fresh)
    return dropped


def rendered(site, url):
    path, _, query = url.removeprefix(HOME).partition("?")
    title, links = site(path, dict(param.partition("=")[::2] for param in query.split("&") if param))
    heading = f"<h1>{title}</h1>" if title else ""
    return (heading + "".join(f'<a href="{link.replace("&", "&amp;")}">x</a>' for link in links)).encode()


@pytest.mark.parametrize(
    "site", [shop, wiki, forum, content_system, one_long_list, one_folder, newspaper, code_host]
)
def test_no_link_of_an_ordinary_site_is_skipped(site):
    assert crawl(site) == {}
