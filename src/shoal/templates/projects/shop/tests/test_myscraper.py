import asyncio
from pathlib import Path

from myscraper import listing, product

from shoal.testing import page, run_step

PAGES = Path(__file__).parent / "pages"


def harvest(step, file):
    return asyncio.run(run_step(step, page((PAGES / file).read_bytes(), url="http://shop.example/")))


def test_a_listing_leads_to_its_products_and_to_the_next_page():
    found = harvest(listing, "listing.html").follow
    assert sum(task.step == "product" for task in found) == 24
    assert found[-1].url == "http://shop.example/c/kitchen/?page=2"


def test_a_product_has_its_price():
    assert harvest(product, "product.html").items == [
        {"name": "Plain Slate Lantern", "price": 71.75, "category": "Lamps", "in_stock": True}
    ]


def test_a_product_without_a_price_is_rejected():
    (reject,) = harvest(product, "no-price.html").rejects
    assert "price" in reject.reason
