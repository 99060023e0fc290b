"""The demo scraper: every product of every shop, as you would write it yourself."""
# mypy: disable-error-code="no-untyped-def"

from typing import Annotated

from msgspec import Meta, Struct

from shoal import Page, Scraper


class DemoProduct(Struct):
    """One product; rejected without a price above zero."""

    sku: str
    name: str
    price: Annotated[float, Meta(gt=0)]
    category: str
    in_stock: bool


shop = Scraper("shop", rate="30/s", retries=3)


@shop.step
def listing(page: Page):
    for link in page.links("nav.categories a"):
        yield page.follow(link)
    for link in page.links(".product h3 a"):
        yield page.follow(link, step=product)
    yield page.follow(page.attr("a[rel=next]", "href"))


@shop.step(item=DemoProduct)
def product(page: Page):
    yield {
        "sku": page.attr("table.facts", "data-sku"),
        "name": page.text("h1"),
        "price": page.attr("[itemprop=price]", "content"),
        "category": page.text(".crumbs a:nth-of-type(2)"),
        "in_stock": page.text(".stock") != "Sold out",
    }
