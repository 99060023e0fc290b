"""Downloads in steps: alone, in items, and what is refused."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from shoal import Scraper, Task
from shoal.core.errors import InvalidInput, InvalidTask
from shoal.core.http import StoredFile
from shoal.core.model import Reject
from shoal.scrape.files import PAYLOAD_KEY, is_download, put_record, read_plan

HTML = '<h1>Lamp</h1><img src="/a.jpg"><img src="https://cdn.example/b.png"><img src="data:x">'


def harvest(function, html=HTML, **settings):
    shop = Scraper("shop", **settings)
    shop.step(function)
    return shop.parse(html, url="https://shop.example/lamp")


def test_a_download_is_a_task_that_scope_and_depth_do_not_apply_to():
    def product(page):
        yield page.download(page.css("img")[1])

    found = harvest(product, max_depth=0)
    (task,) = found.follow
    assert task.url == "https://cdn.example/b.png" and is_download(task) and not found.dropped
    assert (task.step, task.depth) == ("product", 0)


def test_an_item_waits_for_its_files():
    def product(page):
        yield {"title": page.text("h1"), "images": [page.download(img) for img in page.css("img")], "z": 1}

    found = harvest(product)
    assert found.items == [] and found.dropped == {"not a web link": 1}
    plan = read_plan(found.follow[0])
    assert [file.url for file in plan.files] == ["https://shop.example/a.jpg", "https://cdn.example/b.png"]
    assert [file.at for file in plan.files] == [["images", 0], ["images", 1]]
    assert msgspec.json.decode(plan.item) == {"title": "Lamp", "images": [None, None, None], "z": 1}
    assert plan.item.index("title") < plan.item.index("images") < plan.item.index('"z"')


def test_a_record_takes_its_place_in_the_item():
    file = StoredFile(url="u", path="p", sha256="s", size=1, type="image/png", status=200)
    record = {"url": "u", "path": "p", "sha256": "s", "size": 1, "type": "image/png", "status": 200}
    assert put_record('{"a":[null,null]}', ["a", 1], file) == {"a": [None, record]}


def test_a_dataclass_and_an_item_hook_may_hold_downloads():
    @dataclass
    class Product:
        title: str
        image: Any = None

    shop = Scraper("shop")

    @shop.on_item
    def add_image(item, page):
        item.image = page.download(page.attr("img", "src"))

    @shop.step
    def product(page):
        yield Product(page.text("h1"))

    (task,) = shop.parse(HTML).follow
    assert read_plan(task).files[0].at == ["image"]


def test_what_a_page_says_is_never_taken_for_a_download():
    def product(page):
        hostile = {PAYLOAD_KEY: {"files": [{"url": "https://evil.example/", "max_bytes": 1 << 60}]}}
        yield {"image": page.download("/a.jpg"), "data": hostile, "text": "mark 0"}
        yield page.follow("/next", payload=hostile)

    with pytest.raises(InvalidTask, match="write page"):
        harvest(product)


def test_an_item_that_cannot_be_stored_is_rejected_before_its_files_are_fetched():
    def product(page):
        yield {"title": "a\0b", "image": page.download("/a.jpg")}

    found = harvest(product)
    assert not found.follow and "NUL" in found.rejects[0].reason


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda page: page.download("/a", path="{nmae}"), "no field {nmae}"),
        (lambda page: page.download("/a", types=["jpg"]), "types such as 'image/*'"),
        (lambda page: page.download("/a", max_bytes="many"), "max_bytes must be a size"),
        (lambda page: page.download("/a", isbn=1), "name the step: page.download(url, step=…)"),
        (lambda page: page.download("/a", step=7), "step must be a step"),
        (lambda page: page.download("/a", headers={"Authorization": "x"}), "is a secret"),
        (lambda page: {"a": page.download("/a", step="product")}, "has no step"),
        (lambda page: page.download("/a", step="nothing"), "has no step 'nothing'"),
    ],
)
def test_what_cannot_be_downloaded_is_refused_with_what_to_write(call, said):
    def product(page):
        return call(page)

    with pytest.raises(InvalidInput) as caught:
        harvest(product)
    assert said in str(caught.value)


def test_nothing_to_download_is_none():
    def product(page):
        yield {"image": page.download(page.attr("img.big", "src"))}

    assert harvest(product).items == [{"image": None}]


@pytest.mark.parametrize("payload", [{}, {"files": []}, {"files": 1}, {"files": [{"url": 1}]}])
def test_a_payload_that_was_edited_badly_is_refused(payload):
    with pytest.raises(InvalidTask, match="does not say what to download"):
        read_plan(Task(url="https://a.example/", payload={PAYLOAD_KEY: payload}))


def test_a_rejected_item_has_the_urls_of_its_downloads():
    def product(page):
        yield Reject(data={"a": page.download("/a.jpg")}, reason="no price")

    (reject,) = harvest(product).rejects
    assert (reject.data, reject.reason) == ({"a": "https://shop.example/a.jpg"}, "no price")


def test_an_item_hook_may_drop_an_item_with_downloads():
    shop = Scraper("shop")
    shop.on_item(lambda item: [])

    @shop.step
    def product(page):
        yield {"image": page.download("/a.jpg")}

    found = shop.parse(HTML, url="https://shop.example/lamp")
    assert not found.items and not found.follow
    assert found.rejects[0].data == {"image": "https://shop.example/a.jpg"}


def test_files_are_fetched_before_further_pages():
    def product(page):
        yield page.download("/a.jpg")
        yield {"images": [page.download("/b.jpg"), page.download("/c.jpg")]}

    assert [task.priority for task in harvest(product).follow] == [1, 1]


def test_a_test_sees_the_items_that_wait_for_their_files():
    shop = Scraper("shop")

    @shop.step
    def product(page):
        yield {"title": page.text("h1"), "photo": page.download(page.attr("img", "src"))}
        yield page.download("/manual.pdf")
        yield {"title": "without a file"}

    harvest = shop.parse("<h1>Lamp</h1><img src=/lamp.png>", url="https://shop.test/")
    assert harvest.waiting == [{"title": "Lamp", "photo": None}]
    assert harvest.items == [{"title": "without a file"}]
