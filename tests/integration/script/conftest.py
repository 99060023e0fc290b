"""A small demo shop in another process, and scrapers for it."""

import pytest

from shoal import Page, Scraper
from shoal.demo.site import SiteProcess

PRODUCTS = 30


@pytest.fixture(scope="session")
def shop_site():
    with SiteProcess(shops=1, products=PRODUCTS) as site:
        yield site


@pytest.fixture
def shop(shop_site):
    return make_shop(shop_site)


def make_shop(site, name="shop", **settings):
    shop = Scraper(name, rate=None, per_host=20, allow_private=site.hosts, **settings)

    @shop.step
    async def listing(page: Page):
        for link in page.links("nav.categories a"):
            yield page.follow(link)
        for link in page.links(".product h3 a"):
            yield page.follow(link, step=product)
        yield page.follow(page.attr("a[rel=next]", "href"))

    @shop.step
    def product(page: Page):
        yield {"sku": page.attr("table.facts", "data-sku"), "name": page.text("h1")}

    return shop
