"""The Netherlands: a table for each substance."""

from shoal import Page, Scraper

netherlands = Scraper("netherlands", rate="20/s")


@netherlands.step
async def substance(page: Page):
    for row in page.table():
        yield row
