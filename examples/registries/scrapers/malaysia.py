"""Malaysia: pages that are empty until their script has run, through Tor with a browser."""

from shoal import Page, Scraper

malaysia = Scraper("malaysia", rate="10/s", fetch="browser", browser={"wait": "b.holder"})


@malaysia.step
async def pack(page: Page):
    yield {fact.attr("class"): fact.text() for fact in page.css("main b")}
