"""Canada: an API in pages."""

from shoal import Page, Scraper

canada = Scraper("canada", rate="20/s")


@canada.step
async def products(page: Page):
    found = page.json()
    for product in found["products"]:
        yield product
    yield page.follow(found["next"])
