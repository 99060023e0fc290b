"""The scraper of the crawls: every page, every link, and no limit but the defaults."""

from collections.abc import Iterator
from typing import Any

from shoal import Page, Scraper

# Politeness is off, for the site is on this machine. All else is as a new user has it.
complete = Scraper("complete", rate=None, per_host=16)


@complete.step
def everything(page: Page) -> Iterator[Any]:
    """Give every page, and follow all its links."""
    yield {"url": page.url}
    if "html" in page.headers.get("content-type", ""):
        for link in page.links():
            yield page.follow(link)
