"""Businesses of 51 states by city and category, as a directory lists them."""

from dataclasses import dataclass

from shoal import Page, Reject, Scraper

listings = Scraper(
    "listings",
    rate=None,  # the pause of each worker decides; see shoal.toml
    fetch="auto",  # HTTP, and a browser for pages that need one
    browser={"wait": ".business, .none", "tabs": 1, "max_pages": 100},
    allow_private=["127.0.0.1"],
)


@dataclass
class Listing:
    id: str
    name: str
    phone: str
    address: str
    rating: float


@listings.step(item=Listing)
async def listing(page: Page):
    for found in page.css(".business"):
        business = {
            "id": found.attr("data-id"),
            "name": found.text("h2"),
            "phone": found.text(".phone"),
            "address": found.text(".address"),
            "rating": found.text(".rating"),
        }
        if found.css(".ad"):
            yield Reject(data=business, reason="sponsored")
        elif not business["phone"]:
            yield Reject(data=business, reason="no phone")
        else:
            yield business
