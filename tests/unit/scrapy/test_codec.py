"""Requests survive the way through the store, and what cannot is said with its place."""

import json
import random
import sys
from collections import Counter, OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from types import ModuleType
from uuid import UUID

import pytest
import scrapy
from scrapy.http import FormRequest, HtmlResponse, JsonRequest, XmlRpcRequest
from scrapy.http.request import NO_CALLBACK
from scrapy.loader import ItemLoader
from scrapy.utils.serialize import ScrapyJSONEncoder

from shoal.scrapy.codec import RequestCodec, item_as_json
from shoal.scrapy.values import UnreadableRequest, UnstorableRequest
from tests.cases import long

Place = namedtuple("Place", "name page")


class Product(scrapy.Item):
    name = scrapy.Field()
    price = scrapy.Field()


@dataclass
class Author:
    name: str
    born: int = 0


class SignedRequest(scrapy.Request):
    attributes = (*scrapy.Request.attributes, "key")

    def __init__(self, *args, key=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.key = key


class QuotesSpider(scrapy.Spider):
    name = "quotes"

    def parse_quote(self, response):
        yield {}

    def __private(self, response):
        yield {}

    private = __private

    def failed(self, failure):
        yield {}


def parse_outside(response, count=0):
    yield {}


SPIDER = QuotesSpider()
CODEC = RequestCodec(SPIDER)
URL = "https://example.com/1"


def through_the_store(request):
    return CODEC.decode(json.loads(json.dumps(CODEC.encode(request))))


def as_dict(request):
    return {name: getattr(request, name) for name in type(request).attributes} | {"class": type(request)}


def random_value(draw, depth=0):
    plain = [
        lambda: draw.choice([None, True, False, "", "plain", "~tag", "naïve €", "\0", "\ud800", "é" * 9]),
        lambda: draw.choice([0, -1, 2**40, 2**63, -(2**90), 0.1, -0.0, 1e300]),
        lambda: draw.randbytes(draw.randrange(9)),
        lambda: draw.choice([datetime(2026, 2, 3, 4, 5, 6, 7, UTC), date(2026, 1, 2), time(3, 4, 5)]),
        lambda: draw.choice([timedelta(days=-3, microseconds=5), Decimal("1.10"), UUID(int=7)]),
    ]
    nested = [
        lambda: [random_value(draw, depth + 1) for _ in range(draw.randrange(3))],
        lambda: tuple(random_value(draw, depth + 1) for _ in range(draw.randrange(3))),
        lambda: {draw.choice(["a", "~b", "c d", "é"]): random_value(draw, depth + 1) for _ in range(3)},
        lambda: {draw.choice([1, None, (1, 2), "x"]): random_value(draw, depth + 1) for _ in range(2)},
        lambda: {draw.randrange(99), "x", (1, b"y")},
        lambda: frozenset([draw.randrange(99)]),
        lambda: Product(name="n", price=random_value(draw, depth + 1)),
        lambda: Author("a", draw.randrange(99)),
        lambda: Place("x", random_value(draw, depth + 1)),
    ]
    return draw.choice(plain if depth > 2 else plain + nested)()


def random_request(draw):
    kind = draw.choice([scrapy.Request, FormRequest, JsonRequest, XmlRpcRequest, SignedRequest])
    path = draw.choice(["", "a b", "%20x", "é?q=ü&b=[1]", "x#part", "a?b=%E9|c", "Ω/../y"])
    fields = {
        "method": draw.choice(["GET", "POST", "PUT", "HEAD", "DELETE"]),
        "headers": draw.choice([None, {"X-A": "1"}, {"X-B": ["1", "2"], "Accept": b"\xff\xfe"}]),
        "body": draw.choice([None, b"", b"\x00\xff", "naïve"]),
        "cookies": draw.choice([None, {"a": "1"}, [{"name": "a", "value": "b", "domain": "example.com"}]]),
        "encoding": draw.choice(["utf-8", "latin-1"]),
        "priority": draw.choice([0, 5, -3]),
        "dont_filter": draw.random() < 0.5,
        "flags": draw.choice([None, ["a", "b"]]),
        "meta": {f"key {number}": random_value(draw) for number in range(draw.randrange(3))},
        "cb_kwargs": {f"key{number}": random_value(draw) for number in range(draw.randrange(3))},
        "callback": draw.choice(
            [
                None,
                SPIDER.parse,
                SPIDER.parse_quote,
                SPIDER.private,
                NO_CALLBACK,
                parse_outside,
            ]
        ),
        "errback": draw.choice([None, SPIDER.failed]),
    }
    if fields["encoding"] == "latin-1":
        path = "plain"
    more = {"key": random_value(draw)} if kind is SignedRequest else {}
    if kind is XmlRpcRequest:
        fields["body"] = b"<xml/>"
    return kind(f"https://example.com/{path}", **{**fields, **more})


@pytest.mark.parametrize("count", [300, *long(1_500)])
def test_random_requests_come_back_as_they_were(count):
    draw = random.Random(count)
    for _ in range(count):
        request = random_request(draw)
        expected, found = as_dict(request), as_dict(through_the_store(request))
        assert found == expected


def test_a_plain_get_stores_its_url_and_nothing_else():
    assert CODEC.encode(scrapy.Request(URL)) == {"url": URL}


def test_requests_and_subclasses_of_plain_types_in_meta_come_back():
    inner = scrapy.Request(f"{URL}/inner", SPIDER.parse_quote, meta={"deep": (1, 2)})
    meta = through_the_store(scrapy.Request(URL, meta={"next": inner, "odd": OrderedDict(b=1)})).meta
    assert as_dict(meta["next"]) == as_dict(inner)
    assert meta["odd"] == {"b": 1}
    assert repr(through_the_store(scrapy.Request(URL, meta={"nan": float("nan")})).meta["nan"]) == "nan"


def unstorable(**fields):
    with pytest.raises(UnstorableRequest) as raised:
        CODEC.encode(scrapy.Request(URL, **fields))
    return str(raised.value)


@pytest.mark.parametrize("kept", [defaultdict(list, {(1, 2): [3]}), Counter({"a": 2}), OrderedDict(b=1, a=2)])
def test_a_dict_that_makes_its_missing_values_or_keeps_an_order_comes_back_as_it_was(kept):
    found = through_the_store(scrapy.Request(URL, meta={"kept": kept})).meta["kept"]
    assert found == kept
    assert type(found) is type(kept)
    assert getattr(found, "default_factory", None) is getattr(kept, "default_factory", None)


def test_the_page_methods_of_scrapy_playwright_come_back(monkeypatch):
    def init(self, method, *args, **kwargs):
        self.method, self.args, self.kwargs = method, args, kwargs

    page = ModuleType("scrapy_playwright.page")
    page.PageMethod = type("PageMethod", (), {"__init__": init, "__module__": page.__name__})
    monkeypatch.setitem(sys.modules, page.__name__, page)
    method = page.PageMethod("click", "a.next", timeout=3)
    (found,) = through_the_store(scrapy.Request(URL, meta={"methods": [method]})).meta["methods"]
    assert (type(found), vars(found)) == (page.PageMethod, vars(method))
    method.method = lambda page: None
    assert "is a value of type function" in unstorable(meta={"methods": [method]})


def test_each_error_says_what_where_and_what_to_do():
    response = HtmlResponse(URL)
    itself = {}
    itself["again"] = itself
    line = sys._getframe().f_lineno + 1
    lambda_text = unstorable(callback=lambda found: None)
    assert lambda_text == (
        f"the callback of <GET {URL}> is a lambda (test_codec.py:{line}). No other process can find it: make "
        "it a method of the spider, and pass what it needs as cb_kwargs."
    )
    assert unstorable(meta={"loader": ItemLoader(Product(), response)}) == (
        f"meta['loader'] of <GET {URL}> is a value of type ItemLoader. Pass loader.load_item(), and begin "
        "the next loader with it."
    )
    assert unstorable(cb_kwargs={"page": [response]}) == (
        f"cb_kwargs['page'][0] of <GET {URL}> is a value of type HtmlResponse. Pass what you read from it."
    )
    assert unstorable(meta={"spider": SPIDER}) == (
        f"meta['spider'] of <GET {URL}> is a value of type QuotesSpider. Pass text, numbers, lists and dicts."
    )
    assert unstorable(meta=itself) == f"a value of <GET {URL}> is part of itself. Pass a copy."
    assert unstorable(errback=QuotesSpider().failed).startswith(
        f"the errback of <GET {URL}> is the function QuotesSpider.failed (test_codec.py:"
    )


@pytest.mark.parametrize(
    "stored",
    [
        {"url": URL, "callback": "parse_page"},
        {"url": URL, "callback": "os:system"},
        {"url": URL, "callback": "subprocess:run"},
        {"url": URL, "callback": "scrapy.utils.misc:load_object"},
        {"url": URL, "callback": ["posix:system", ["true"], {}]},
        {"url": URL, "callback": "__class__"},
        {"url": URL, "callback": "crawler"},
        {"url": URL, "callback": 7},
        {"url": URL, "class": "os:system"},
        {"url": URL, "class": "subprocess:Popen"},
        {"url": URL, "class": "not.imported:Request"},
        {"url": URL, "meta": {"x": {"~item": ["subprocess:Popen", {"args": "true"}]}}},
        {"url": URL, "meta": {"x": {"~item": ["builtins:dict", {"a": 1}]}}},
        {"url": URL, "meta": {"x": {"~named": ["builtins:tuple", [1]]}}},
        {"url": URL, "meta": {"x": {"~pickle": "gASVKQ=="}}},
        {"url": URL, "meta": {"x": {"~dict of": ["os:system", []]}}},
        {"url": URL, "meta": {"x": {"~bytes": 7}}},
        {"url": URL, "meta": {"x": {"~request": {"url": "no scheme"}}}},
        {"url": URL, "unknown": 1},
        {"url": 7},
    ],
)
def test_a_forged_payload_loads_nothing_and_is_refused(stored, monkeypatch):
    before = set(sys.modules)
    with pytest.raises(UnreadableRequest):
        CODEC.decode(stored)
    assert set(sys.modules) == before


def test_a_function_that_the_project_has_only_imported_is_no_callback(monkeypatch):
    module = ModuleType(f"{QuotesSpider.__module__.partition('.')[0]}.helpers")
    exec("from subprocess import run", module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with pytest.raises(UnreadableRequest, match="Was it renamed"):
        CODEC.decode({"url": URL, "callback": f"{module.__name__}:run"})


def test_items_become_what_json_feeds_have():
    item, at = Product(name=b"n", price={Decimal("1.5")}), datetime(2026, 1, 2, 3, 4, 5)
    found = item_as_json({"at": at, "of": item, "author": Author("a"), 1: (2,)})
    assert found == {
        "at": json.loads(ScrapyJSONEncoder().encode(at)),  # older versions write a space for the T
        "of": {"name": "n", "price": ["1.5"]},
        "author": {"name": "a", "born": 0},
        "1": [2],
    }
