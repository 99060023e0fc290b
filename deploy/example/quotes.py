"""A scraper to begin with: put your own in its place."""

from shoal import Page, Scraper

quotes = Scraper("quotes", rate="2/s")


@quotes.step
async def listing(page: Page):
    for quote in page.css("div.quote"):
        yield {"text": quote.text("span.text"), "author": quote.text("small.author")}
    yield page.follow(page.attr("li.next a", "href"))
