"""Hooks are called in order, may be async in an async step, and say what they may return."""

import asyncio
from dataclasses import dataclass

import pytest

from shoal import Page, Reject, Scraper
from shoal.core.errors import InvalidInput, InvalidItem, InvalidSetting
from shoal.core.model import Task
from shoal.scrape.hooks import OutgoingRequest


def scraper_with(*hooks, is_async=True, item=None):
    shop = Scraper("shop")

    async def listing(page: Page):
        for price in page.css("b"):
            yield {"price": price.text()}

    def listing_in_thread(page: Page):
        for price in page.css("b"):
            yield {"price": price.text()}

    shop.step(name="listing", item=item)(listing if is_async else listing_in_thread)
    for hook in hooks:
        shop.on_item(hook)
    return shop


def in_place(item):
    item["price"] = item["price"].lstrip("£")


async def doubled(item):
    await asyncio.sleep(0)
    return [item, {**item, "copy": True}]


def copied(item):
    return [item, {**item, "copy": True}]


@pytest.mark.parametrize(("is_async", "second"), [(True, doubled), (True, copied), (False, copied)])
def test_items_go_through_each_hook_in_order(is_async, second):
    harvest = scraper_with(in_place, second, is_async=is_async).parse("<b>£1</b><b>£2</b>")
    assert harvest.items == [
        {"price": "1"},
        {"price": "1", "copy": True},
        {"price": "2"},
        {"price": "2", "copy": True},
    ]


def test_an_async_hook_needs_an_async_step():
    shop = scraper_with(doubled, is_async=False)
    with pytest.raises(InvalidSetting, match="on_item doubled is async, and step 'listing' is not"):
        shop.replace(rate="5/s")
    shop = scraper_with(lambda item: doubled(item), is_async=False)
    with pytest.raises(InvalidInput, match="is async, which needs a step that is defined with 'async def'"):
        shop.parse("<b>1</b>")


def test_a_dropped_item_is_a_reject_that_names_the_hook():
    def cheap_only(item, page):
        assert page.url == "https://example.com/"
        return [] if float(item["price"]) > 1 else None

    harvest = scraper_with(cheap_only).parse("<b>1</b><b>2</b>")
    assert harvest.items == [{"price": "1"}]
    assert [(reject.data, reject.reason) for reject in harvest.rejects] == [
        ({"price": "2"}, "dropped by on_item cheap_only")
    ]


def test_a_reject_of_a_hook_skips_the_hooks_after_it():
    seen = []
    harvest = scraper_with(lambda item: Reject(data=item, reason="no"), seen.append).parse("<b>1</b>")
    assert [reject.reason for reject in harvest.rejects] == ["no"] and not seen


def test_items_are_validated_after_the_hooks():
    @dataclass
    class Price:
        price: float

    assert scraper_with(in_place, item=Price).parse("<b>£1.5</b>").items == [{"price": 1.5}]
    assert scraper_with(item=Price).parse("<b>£1.5</b>").rejects


@pytest.mark.parametrize(
    ("result", "message"),
    [(7, "on_item wrong returned a value of type int"), ([7], "a list with a value of type int")],
)
def test_a_wrong_result_names_the_hook(result, message):
    def wrong(item):
        return result

    with pytest.raises(InvalidItem, match=message):
        scraper_with(wrong).parse("<b>1</b>")


def test_tasks_and_nothing_do_not_go_through_hooks_of_items():
    shop, seen = Scraper("shop"), []
    shop.on_item(seen.append)

    @shop.step
    async def listing(page: Page):
        yield None
        yield page.follow("/next")

    assert len(shop.parse("").follow) == 1 and not seen


@pytest.mark.parametrize("kind", ["request", "response", "item", "error", "start", "finish"])
def test_what_cannot_be_a_hook_is_refused_with_an_example(kind):
    shop = Scraper("shop")
    for wrong in (lambda: None, lambda a, b, c: None, int, "clean"):
        with pytest.raises(InvalidInput, match="Define a hook as in"):
            getattr(shop, f"on_{kind}")(wrong)


HOOKS = ("request", "response", "item", "error", "start", "finish", "run_start", "run_finish")


@pytest.mark.parametrize("kind", HOOKS)
def test_a_generator_is_refused_as_a_hook_because_none_of_its_code_would_run(kind):
    def prepare(argument):
        yield argument

    async def prepare_async(argument):
        yield argument

    for wrong in (prepare, prepare_async):
        with pytest.raises(InvalidInput, match=rf"on_{kind} def prepare.* has a yield"):
            getattr(Scraper("shop"), f"on_{kind}")(wrong)


def test_a_hook_with_the_wrong_arguments_is_shown_as_it_is_defined():
    def clean():
        """Take nothing."""

    with pytest.raises(InvalidInput, match=r"def clean\(item, page\); got def clean\(\)$"):
        Scraper("shop").on_item(clean)


def test_a_changed_copy_of_a_scraper_has_its_hooks_and_resources():
    shop = scraper_with(in_place)
    copy = shop.replace(rate="1/s")
    assert copy.hooks is shop.hooks and copy.resources is shop.resources
    assert copy.parse("<b>£1</b>").items == [{"price": "1"}]


def test_a_parameter_is_set_in_place_of_another_of_its_name():
    request = OutgoingRequest("https://a.test/x?q=1&page=2&q=3#f", {}, None, Task())
    request.set_param("q", "a b&")
    assert request.url == "https://a.test/x?page=2&q=a+b%26#f"
    assert request.method == "GET"
