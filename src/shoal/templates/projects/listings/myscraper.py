"""Businesses of many states, cities and categories; each worker serves some of the states."""

from dataclasses import dataclass

from shoal import Page, Reject, Scraper

scraper = Scraper("myscraper", rate="10/s", retries=3)


@dataclass
class Business:
    id: str
    name: str
    phone: str
    rating: float


@scraper.step(item=Business)
async def listing(page: Page):
    for found in page.css(".business"):
        business = {
            "id": found.attr("data-id"),
            "name": found.text("h2"),
            "phone": found.text(".phone"),
            "rating": found.text(".rating"),
        }
        if found.css(".ad"):
            yield Reject(data=business, reason="sponsored")
        elif not business["phone"]:
            yield Reject(data=business, reason="no phone")
        else:
            yield business
