import asyncio
from pathlib import Path

from myscraper import orders

from shoal.testing import page, run_step

PAGE = Path(__file__).parent / "pages" / "orders.html"


def test_a_page_gives_its_orders_and_the_next_page():
    harvest = asyncio.run(run_step(orders, page(PAGE.read_bytes(), url="http://shop.example/members/orders")))
    assert harvest.items[0] == {"number": "A1000", "date": "2026-01-01", "total": 509.94}
    assert len(harvest.items) == 8
    assert [task.url for task in harvest.follow] == ["http://shop.example/members/orders?page=2"]
