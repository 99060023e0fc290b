"""Shoal as its README shows it: a scraper for the known pages, and one that follows links; with hooks too."""

from shoal import Page, Scraper

# Every process has 64 requests in the air, as all that are measured have. This limit is the whole fleet's,
# and counts what was claimed ahead and what waits to be settled too.
FULL_SPEED = {"rate": None, "per_host": 256, "robots": False}

known = Scraper("known", **FULL_SPEED)
linked = Scraper("linked", **FULL_SPEED)
known_with_hooks = Scraper("known-with-hooks", **FULL_SPEED)
linked_with_hooks = Scraper("linked-with-hooks", **FULL_SPEED)


@known.step
async def read(page: Page):
    yield {"url": page.url, "title": page.text("title"), "links": len(page.css("a[href]"))}


@linked.step
async def read_and_follow(page: Page):
    yield {"url": page.url, "title": page.text("title"), "links": len(page.css("a[href]"))}
    for link in page.links():
        yield page.follow(link)


# The same with one hook of each kind that does nothing.
known_with_hooks.step(read.function)
linked_with_hooks.step(read_and_follow.function)
for scraper in (known_with_hooks, linked_with_hooks):
    for hook in (scraper.on_request, scraper.on_response, scraper.on_item, scraper.on_error):
        hook(lambda first: None)
