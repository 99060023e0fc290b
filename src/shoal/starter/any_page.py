"""The scraper of `shoal run URL`: what can be read from any page without knowing it."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from shoal import Page, Scraper
from shoal.core.errors import ParseFailed


class AnyPageArgs(Struct):
    """`-a follow=yes` crawls the links of a page on its host too."""

    follow: bool = False


site = Scraper("site", args=AnyPageArgs)


@site.step
def any_page(page: Page) -> Iterator[Any]:
    """Yield the title, text, links and structured data of a page."""
    links = page.links()
    data = [*_read(page.jsonld), *_read(page.microdata)]
    about = page.metadata()
    item = {
        "url": page.url,
        "title": about.pop("title", "") or page.text("h1"),
        "about": about,
        "text": page.article()["text"] or page.text(),
        "links": links,
    }
    yield item | {"data": data} if data else item  # an empty field would be a warning
    if page.args.follow:
        yield from map(page.follow, links)


def _read(read: Any) -> list[dict[str, Any]]:
    try:
        return list(read())
    except ParseFailed:  # of hostile data; the rest of the page is still of use
        return []
