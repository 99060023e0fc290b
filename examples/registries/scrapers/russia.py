"""Russia: a table that grows with every click, through Tor with a browser."""

from shoal import Page, Scraper

FIELDS = ("code", "name", "substance", "form", "holder")
ROWS = "[...document.querySelectorAll('tr')].map(row => [...row.cells].map(cell => cell.innerText))"

russia = Scraper("russia", rate="5/s", fetch="browser", browser={"wait": "tr"})


@russia.step
async def register(page: Page):
    rows = await page.browser.evaluate(ROWS)
    while await page.browser.evaluate("document.querySelector('button') !== null"):
        await page.browser.click("button")
        await page.browser.wait_for(f"tr:nth-child({len(rows) + 1})")
        rows = await page.browser.evaluate(ROWS)
    for row in rows:
        yield dict(zip(FIELDS, row, strict=True))
