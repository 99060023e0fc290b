"""Argentina: lists that lead on to each other, and a page for each medicine."""

from shoal import Page, Scraper

argentina = Scraper("argentina", rate="5/s")


@argentina.step
async def listing(page: Page):
    for link in page.links("li a"):
        yield page.follow(link, step=medicine)
    yield page.follow(page.attr("a.next", "href"))


@argentina.step
async def medicine(page: Page):
    yield {cell.attr("class"): cell.text() for cell in page.css("table.facts td")}
