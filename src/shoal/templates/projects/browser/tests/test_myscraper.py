import asyncio
from pathlib import Path

from myscraper import product

from shoal.testing import page, run_step

PAGE = Path(__file__).parent / "pages" / "product.html"


def test_a_product_has_its_price():
    saved = page(PAGE.read_bytes(), url="http://shop.example/js/p/s0-00000")
    assert asyncio.run(run_step(product, saved)).items == [
        {"name": "Plain Slate Lantern", "price": "€71.75", "stock": "30 in stock"}
    ]
