"""The seeds that a scraper itself has."""

import pytest

from shoal import Scraper, Task
from shoal.core.errors import InvalidInput, InvalidSetting, ShoalError
from shoal.fleet.sources.seeds import iterate_scraper_seeds

URL = "https://example.com/"


async def seeds_of(function, **more):
    shop = Scraper("shop", args={"pages": 2}, **more)
    shop.seeds(function)
    return [one async for one in iterate_scraper_seeds(shop)]


async def test_a_function_of_any_kind_yields_seeds():
    def generator(args):
        yield from (f"{URL}{number}" for number in range(args.pages))

    async def async_generator(args):
        for number in range(args.pages):
            yield f"{URL}{number}"

    async def coroutine(args):
        return [f"{URL}{number}" for number in range(args.pages)]

    for function in (generator, async_generator, coroutine, lambda: [f"{URL}0", f"{URL}1"]):
        assert await seeds_of(function) == [f"{URL}0", f"{URL}1"]
    assert await seeds_of(lambda: None) == []
    assert await seeds_of(lambda: URL) == [URL]


async def test_the_start_comes_first():
    task = Task(url=URL, step="listing")
    assert await seeds_of(lambda: [f"{URL}2"], start=[URL, task]) == [URL, task, f"{URL}2"]
    assert Scraper("shop", start=URL).start == (URL,)


async def test_many_seeds_are_read_one_after_the_other():
    assert len(await seeds_of(lambda: (f"{URL}{number}" for number in range(2_000)))) == 2_000


async def test_a_function_that_fails_is_named_with_its_line():
    def failing():
        yield URL
        raise KeyError("shelf")

    with pytest.raises(ShoalError, match=r"'shop' failed after 1 seed: KeyError: 'shelf' \(test_seeds.py:"):
        await seeds_of(failing)


def test_what_cannot_be_seeds_is_refused():
    shop = Scraper("shop")
    for wrong in (5, Scraper, lambda one, two: None):
        with pytest.raises(InvalidInput, match="def seeds"):
            shop.seeds(wrong)
    shop.seeds(lambda: [URL])
    with pytest.raises(InvalidSetting, match="already defined"):
        shop.seeds(lambda: [URL])
    for wrong in (5, [5], [None]):
        with pytest.raises(InvalidSetting, match="start must"):
            Scraper("shop", start=wrong)
    assert shop.has_seeds and not Scraper("shop").has_seeds and shop.replace(rate=None).has_seeds
