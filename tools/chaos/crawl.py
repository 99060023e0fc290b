"""The scraper of the campaign: one item a page, and every link of it followed."""

import asyncio
import os
from collections.abc import AsyncIterator

from shoal import Page, Scraper

# Seconds of a step: long enough that faults find some in the middle of their work.
HANDLING = float(os.environ.get("CHAOS_HANDLING", "0.2"))

crawl = Scraper(
    "chaos",
    robots=False,
    scope="any",
    allow_private="127.0.0.0/8",
    retries=20,
    missing="dead",  # so that the judge can tell each missing page from one that was lost
)


@crawl.step(lease=os.environ.get("CHAOS_STEP_LIMIT"))
async def page(page: Page) -> AsyncIterator[object]:
    """Yield the page and what it leads to."""
    await asyncio.sleep(HANDLING)
    for link in page.links():
        yield page.follow(link)
    yield {"page": int(page.url.rpartition("/")[2])}
