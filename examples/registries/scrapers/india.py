"""India: a page for each of a million medicines, from a file of URLs."""

from shoal import Page, Scraper

india = Scraper("india", rate=None, per_host=64, retries=3)


@india.step
async def drug(page: Page):
    yield {cell.attr("class"): cell.text() for cell in page.css("table.facts td")}
