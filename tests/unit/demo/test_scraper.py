"""The demo scraper on the demo pages."""

from collections.abc import Iterator

import pytest

from shoal.demo.catalogue import CatalogueProduct, Shop, open_shops
from shoal.demo.responses import ShopResponse
from shoal.demo.routes import ShopRoutes
from shoal.demo.scraper import product, shop
from shoal.scrape.harvest import Harvest

ORIGIN = "http://127.0.0.1:8000"


@pytest.fixture
def store() -> Shop:
    return open_shops(1, 500, seed=2026)[0]


def scrape(response: ShopResponse, one: CatalogueProduct) -> Harvest:
    url, headers = f"{ORIGIN}{one.path}", {"content-type": response.content_type}
    return shop.parse(response.body, url=url, step=product, headers=headers)


def responses(store: Shop) -> Iterator[tuple[CatalogueProduct, ShopResponse]]:
    """Yield every product with the response to its second request."""
    routes = ShopRoutes(store, ORIGIN)
    for one in store.products:
        routes.respond(one.path)
        yield one, routes.respond(one.path)


def test_every_product_gives_an_item_or_a_reject_whatever_its_fault(store):
    for one, response in responses(store):
        harvest = scrape(response, one)
        found = [item["sku"] for item in harvest.items] + [reject.data["sku"] for reject in harvest.rejects]
        assert found == [one.sku]
        assert bool(harvest.items) == one.has_price


def test_an_item_has_the_data_of_the_page(store):
    one, response = next(responses(store))
    assert scrape(response, one).items == [
        {
            "sku": one.sku,
            "name": one.name,
            "price": float(one.price.removeprefix("€")),
            "category": "Lamps",
            "in_stock": one.stock > 0,
        }
    ]


def test_a_product_without_a_price_is_rejected_with_the_reason(store):
    (one,) = (one for one in store.products[:100] if not one.has_price)
    (reject,) = scrape(ShopRoutes(store, ORIGIN).respond(one.path), one).rejects
    assert reject.reason.startswith("price: ")
