import asyncio
from pathlib import Path

from myscraper import products

from shoal.testing import page, run_step

PAGE = Path(__file__).parent / "pages" / "products.json"


def test_a_page_gives_its_products_and_the_next_page():
    saved = page(PAGE.read_bytes(), url="http://api.example/api/products")
    harvest = asyncio.run(run_step(products, saved))
    assert harvest.items[0] == {
        "sku": "S0-00020",
        "name": "Everyday Copper Floor Lamp",
        "price": 148.54,
        "stock": 36,
    }
    assert (len(harvest.items), len(harvest.rejects)) == (19, 1)  # one has no price
    assert [task.url for task in harvest.follow] == ["http://api.example/api/products?page=3"]
