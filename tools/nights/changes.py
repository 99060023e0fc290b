"""What may be different on a site tonight, and what a run is expected to say about it."""

import random
import re
from collections.abc import Callable
from html import escape
from typing import NamedTuple

from tests.integration.engine.origin import Answer
from tools.nights.shop import Product, Tonight, make_product, some

COOKIES = "description>We value your privacy."


class Change(NamedTuple):
    """One change of the site; `expected` is in the text of a finding, None if there is none."""

    name: str
    tonight: Tonight
    expected: str | None
    outcome: str = "complete"
    prices_must_be_numbers: bool = False
    settings: tuple[str, ...] = ()


BLOCK_PAGE = "<title>Just a moment...</title><p>Checking your browser</p>"
BLOCK_PAGE_WITH_TITLE = "<title>Access denied</title><h1>Access denied</h1><p>Reference 18.2f</p>"


def replaced(old: str, new: str, share: float = 1.0) -> Tonight:
    """Return a text of the product pages, as a regular expression, that is another one on a share of them."""
    return Tonight(html=lambda page, one: re.sub(old, new, page) if some(one, share) else page)


def page_instead(page: str, share: float = 1.0) -> Tonight:
    """Return another page for a share of the products."""
    return Tonight(html=lambda before, one: page if some(one, share) else before)


def status(code: int, share: float) -> Tonight:
    """Return an error for a share of the products."""

    def answer(given: Answer, path: str) -> Answer:
        is_hit = path.startswith("/p/") and some({"sku": path}, share)
        return Answer("<h1>Error</h1>", status=code) if is_hit else given

    return Tonight(answer=answer)


def exchanged(page: str, product: Product) -> str:
    """Exchange name and brand on half of the pages."""
    if not some(product, 0.5):
        return page
    name, brand = escape(product["name"]), escape(product["brand"])
    page = page.replace(f"<h1>{name}", f"<h1>{brand}")
    return page.replace(f"class=brand>{brand}", f"class=brand>{name}")


def translated(page: str, product: Product) -> str:
    """Show the texts in another language."""
    for old, new in {"In stock": "Auf Lager", "Few left": "Nur wenige", "Sold out": "Ausverkauft"}.items():
        page = page.replace(f"class=stock>{old}", f"class=stock>{new}")
    return page.replace("useful", "nützlich").replace("solid", "massiv")


def misread(page: str, product: Product) -> str:
    """Show UTF-8 that was read as Latin-1."""
    return page.encode().decode("latin-1")


def price(render: Callable[[float], str], share: float = 1.0) -> Tonight:
    """Return prices that are shown in another way on a share of the pages."""

    def html(page: str, product: Product) -> str:
        shown = render(float(product["price"]))
        return re.sub("£[0-9.,]+", shown, page) if some(product, share) else page

    return Tonight(html=html)


def in_euros(page: str, product: Product) -> str:
    """Show prices in another currency."""
    page = page.replace("content=GBP", "content=EUR")
    return re.sub("£[0-9.,]+", f"€{float(product['price']) * 1.17:,.2f}", page)


def other_dates(page: str, product: Product) -> str:
    """Show dates as in Germany."""
    return re.sub("<time>([0-9]+)-([0-9]+)-([0-9]+)", r"<time>\3.\2.\1", page)


def more(products: list[Product], share: float) -> list[Product]:
    """Return this share of products more."""
    fresh = [{**one, "sku": f"AC-{place:05d}"} for place, one in enumerate(products)]
    return [*products, *fresh[: round(share * len(products))]]


def doubled(products: list[Product]) -> list[Product]:
    """Show each product at two addresses."""
    return [one for each in products for one in (each, {**each, "path": f"{each['sku']}-b"})]


def same_catalogue(products: list[Product]) -> list[Product]:
    """Show one product at the addresses of all."""
    return [{**products[0], "path": one["sku"]} for one in products]


def replaced_catalogue(products: list[Product]) -> list[Product]:
    """Show as many other products."""
    return [make_product(50_000 + place, random.Random(place)) for place in range(len(products))]


NOTICED = [
    Change(
        "the class of the price is renamed", replaced("class=price", "class=amount"), "price: filled in 0%"
    ),
    Change(
        "the same, and the step raises for it",
        replaced("class=price", "class=amount"),
        "product: 0 items",
        "empty",
        prices_must_be_numbers=True,
    ),
    Change("the same on 40 % of the pages", replaced("class=price", "class=amount", 0.4), "price: filled in"),
    Change("block pages with status 200 on 60 %", page_instead(BLOCK_PAGE, 0.6), "sku: filled in"),
    Change("block pages with a heading on 60 %", page_instead(BLOCK_PAGE_WITH_TITLE, 0.6), "sku: filled in"),
    Change("block pages with status 200 on all", page_instead(BLOCK_PAGE), "sku: filled in 0%"),
    # Each 403 doubles the gap of the host, so 200 of them would take hours.
    Change("status 403 on all", status(403, 1.0), "", "blocked", settings=("stop_when=20",)),
    Change("status 500 on 30 %", status(500, 0.3), "of the tasks failed", "partial"),
    Change("status 404 on half", status(404, 0.5), "product: "),
    Change("half of the catalogue is gone", Tonight(catalogue=lambda all: all[::2]), "product: "),
    Change("prices as text", price(lambda _: "ask us"), "price: text in 100%"),
    Change("another currency", Tonight(html=in_euros), "currency: "),
    Change("prices times 100", price(lambda price: f"£{round(price * 100)}"), "price: the median"),
    Change("a decimal comma", price(lambda price: f"{price:.2f} £".replace(".", ",")), "price: the median"),
    Change("prices of 0", price(lambda _: "£0.00"), "price: "),
    Change("other dates", Tonight(html=other_dates), "updated: "),
    Change("cut titles", replaced("<h1>(.{8})[^<]*", r"<h1>\1..."), "name: "),
    Change("one name on all pages", replaced("<h1>[^<]*", "<h1>Welcome to our shop"), "name: "),
    Change("each product twice", Tonight(catalogue=doubled), "product: "),
    Change("one product at all addresses", Tonight(catalogue=same_catalogue), "sku: "),
    Change("another language", Tonight(html=translated), "stock: "),
    Change("no images", replaced("<img[^>]*>", ""), "images: filled in 0%"),
    Change("a placeholder for each image", replaced("src='[^']*'", "src='/1px.gif'"), "images: "),
    Change(
        "the list ends at page 1", Tonight(listing=lambda page: page.split("<a rel=next")[0]), "product: "
    ),
    Change(
        "a list without links", Tonight(listing=lambda _: "<div id=app></div>"), "product: 0 items", "empty"
    ),
    Change("name and brand exchanged on half", Tonight(html=exchanged), "name: "),
    Change("UTF-8 read as Latin-1", Tonight(html=misread), "shown_price: "),
    Change("everything sold out", replaced("class=stock>[^<]*", "class=stock>Sold out"), "stock: "),
    Change(
        "a cookie notice as description",
        replaced("description>[^<]*", COOKIES),
        "description: ",
    ),
    Change(
        "ratings of 10",
        Tonight(
            html=lambda page, one: re.sub("rating>([0-9])", lambda found: f"rating>{2 * int(found[1])}", page)
        ),
        "rating: ",
    ),
    Change("the seller's country is lost", replaced("<i>[^<]*</i>", ""), "seller.country: filled in 0%"),
    Change("twice as many products", Tonight(catalogue=lambda all: more(all, 1.0)), "product: "),
]

ORDINARY = [
    Change("a night like others", Tonight(), None),
    Change("a tenth more products", Tonight(catalogue=lambda all: more(all, 0.1)), None),
    Change("a fifth fewer products", Tonight(catalogue=lambda all: all[: len(all) * 4 // 5]), None),
    Change(
        "a new optional field",
        replaced("$", "<p class=extra>A", 0.3),
        None,
    ),
    Change("one dead page", status(500, 0.01), None, "partial"),
    Change("prices 17 % higher", price(lambda price: f"£{price * 1.17:,.2f}"), None),
    Change(
        "a sale: half of the products 30 % cheaper",
        Tonight(
            html=lambda page, one: (
                re.sub("£[0-9.,]+", f"£{float(one['price']) * 0.7:,.2f}", page) if some(one, 0.5) else page
            )
        ),
        None,
    ),
    Change("a label in one of ten names", replaced("<h1>", "<h1>NEW ", 0.1), None),
    Change("a new brand for one of ten", replaced("class=brand>[^<]*", "class=brand>Zenith", 0.1), None),
    Change("other products throughout", Tonight(catalogue=replaced_catalogue), None),
]
