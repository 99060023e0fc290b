"""Links and downloads that a step creates and does not yield are found before a run."""

from shoal import Scraper
from shoal.fleet.status.doctor import CheckStatus, examine
from shoal.scrape.step import discarded_calls


def found(function):
    return list(discarded_calls("listing", function))


async def loses(page):
    for link in page.links():
        page.follow(link)
    page.download("/a.png")
    yield {}


async def keeps(page, other=None):
    yield page.follow("/a")
    links = [page.follow("/b")]
    links.append(page.follow("/c"))
    other.follow("/d")
    page.text("h1")
    for link in links:
        yield link
    yield {"image": page.download("/a.png")}


def test_each_call_without_yield_is_named_with_its_line():
    line = loses.__code__.co_firstlineno
    assert found(loses) == [
        f"step 'listing' calls page.download(…) without yield (test_discarded.py:{line + 3}), "
        "which does nothing. Write: yield page.download(…)",
        f"step 'listing' calls page.follow(…) without yield (test_discarded.py:{line + 2}), "
        "which does nothing. Write: yield page.follow(…)",
    ]


def test_what_is_yielded_collected_or_returned_is_not_named():
    assert found(keeps) == []
    assert found(lambda page: [page.follow("/a")]) == []


def test_a_step_with_decorators_and_one_inside_a_class_are_read():
    def same(function):
        return function

    @same
    @same
    def decorated(page):
        page.follow("/a")

    class Shop:
        def step(self, page):
            def follow_all():
                page.follow("/a")

            yield from follow_all()

    line = decorated.__code__.co_firstlineno
    assert f"test_discarded.py:{line + 3}" in found(decorated)[0]
    assert len(found(Shop().step)) == 1


async def test_the_check_names_them(tmp_path):
    shop = Scraper("shop")
    shop.step(loses)
    (steps, _) = [one async for one in examine(f"sqlite:///{tmp_path}/a.db", shop) if one.what == "steps"]
    assert steps.health is CheckStatus.POOR and "page.download(…) without yield" in steps.says
