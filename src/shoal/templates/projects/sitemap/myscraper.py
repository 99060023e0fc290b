"""The pages that a sitemap lists; a later run fetches only those that are new."""

from shoal import Page, Scraper

scraper = Scraper("myscraper", rate="10/s", dedup="30d")


@scraper.step
async def article(page: Page):
    about = page.metadata()
    yield {
        "url": page.url,
        "title": page.text("h1"),
        "language": about.get("language"),
        "lastmod": page.payload.get("lastmod"),  # from the sitemap
        "words": len(page.text("main").split()),
    }
