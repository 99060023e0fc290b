"""The products of a shop, from its categories to each product."""

from dataclasses import dataclass

from shoal import Page, Scraper

scraper = Scraper("myscraper", rate="10/s")


@dataclass
class Product:
    name: str
    price: float
    category: str
    in_stock: bool


@scraper.step  # the first step gets the URLs that a run starts with
async def listing(page: Page):
    for link in page.links("nav.categories a"):
        yield page.follow(link)
    for link in page.links(".product h3 a"):
        yield page.follow(link, step=product)
    yield page.follow(page.attr("a[rel=next]", "href"))


@scraper.step(item=Product)  # an item without a valid price is kept as a reject
async def product(page: Page):
    yield {
        "name": page.text("h1"),
        "price": page.attr("[itemprop=price]", "content"),
        "category": page.text(".crumbs a:nth-of-type(2)"),
        "in_stock": page.text(".stock") != "Sold out",
    }
