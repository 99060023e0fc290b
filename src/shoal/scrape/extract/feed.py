"""RSS and Atom feeds."""

from collections.abc import Callable
from typing import Any

from turbohtml import Document, HTMLParseError, parse_xml

from shoal.core.errors import InvalidUrl, ParseFailed
from shoal.core.urls import join
from shoal.scrape.tree import MAX_TEXT

Parse = Callable[[], Document]

_ENTRY = ("title", "link", "id", "published", "updated", "author", "summary", "content")
_FEED = ("type", "title", "link", "description", "updated")


def read_feed(text: str, base: str, parse_as_html: Parse) -> dict[str, Any]:
    """Return a feed and its entries, with absolute links and None for what is missing; raises ParseFailed."""
    if len(text) > MAX_TEXT:
        raise ParseFailed(f"The feed has {len(text):,} characters; the limit is {MAX_TEXT:,}")
    try:
        feed = parse_xml(text.lstrip("\ufeff \t\r\n")).feed()
    except (HTMLParseError, RecursionError):
        # Many feeds are not well-formed, for example because of &nbsp; in them.
        feed = parse_as_html().feed()
    if feed is None:
        raise ParseFailed("The page is no RSS or Atom feed")
    found: dict[str, Any] = {name: getattr(feed, name) for name in _FEED}
    found["link"] = _absolute(base, feed.link)
    found["entries"] = [
        {name: getattr(entry, name) for name in _ENTRY} | {"link": _absolute(base, entry.link)}
        for entry in feed.entries
    ]
    return found


def _absolute(base: str, url: str | None) -> str | None:
    try:
        return join(base, url) if url else None
    except InvalidUrl:
        return None
