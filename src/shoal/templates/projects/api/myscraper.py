"""The products of a JSON API, page by page, with as many tokens as you have."""

from dataclasses import dataclass

from shoal import Page, Scraper

API = "http://127.0.0.1:8800"  # the site of `shoal demo --serve`

scraper = Scraper(
    "myscraper",
    rate="10/s",
    start=[f"{API}/api/products"],
    tokens={"from": "env", "hosts": API},  # SHOAL_TOKENS, in .env; sent to this host only
)


@dataclass
class CatalogueEntry:
    sku: str
    name: str
    price: float
    stock: int


@scraper.step(item=CatalogueEntry)
async def products(page: Page):
    data = page.json()
    for product in data["products"]:
        yield product
    yield page.follow(data["next"])
