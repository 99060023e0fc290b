"""The products of a shop whose pages are empty without JavaScript."""

from shoal import Page, Scraper

scraper = Scraper("myscraper", rate="5/s", fetch="browser", browser={"wait": "#root.ready"})


@scraper.step
async def listing(page: Page):
    for link in page.links("#root a"):
        yield page.follow(link, step=product)


@scraper.step
async def product(page: Page):
    yield {"name": page.text("h1"), "price": page.text(".price"), "stock": page.text(".stock")}
