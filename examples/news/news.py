"""Articles of newspapers: breaking news first, the archive when there is time, live pages at most once."""

from shoal import Page, Scraper

news = Scraper(
    "news",
    rate="600/min",  # per domain, for all workers together
    ttl="24h",
    timeout="2s",
    retries=2,  # three attempts
    retry={"delay": "1s"},
    cache="5m",
    keep="24h",  # finished runs, with their dead letters
)


def _item(page: Page) -> dict[str, str | None]:
    paper, section = (page.attr("article", name) for name in ("data-paper", "data-section"))
    return {"paper": paper, "section": section, "title": page.text("h1")}


@news.step
async def article(page: Page):
    """Settled when it is done: a worker that dies gives it back."""
    about = page.payload.get("news", {})
    yield _item(page) | ({"published": about["date"]} if "date" in about else {})


@news.step(delivery="at_most_once", timeout="20s")  # its only attempt may take its time
async def live(page: Page):
    """Settled when it is claimed: never twice, and lost with its worker."""
    yield _item(page)
