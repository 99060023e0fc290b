"""RSS, Atom and JSON feeds."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import turbohtml

from shoal.core.errors import InvalidUrl, ParseFailed
from shoal.core.urls import join
from shoal.scrape.parsing.tree import MAX_TEXT

Parse = Callable[[], "turbohtml.Document"]

_ENTRY = ("title", "link", "id", "published", "updated", "author", "summary", "content")
_FEED = ("type", "title", "link", "description", "updated")


def read_feed(text: str, base: str, parse_as_html: Parse) -> dict[str, Any]:
    """Return a feed and its entries, with absolute links and None for what is missing; raises ParseFailed."""
    if len(text) > MAX_TEXT:
        raise ParseFailed(f"The feed has {len(text):,} characters; the limit is {MAX_TEXT:,}")
    begun = without_surrogates(text).lstrip("\ufeff \t\r\n")
    if begun.startswith("{"):
        return _read_json_feed(begun, base)
    try:
        feed = turbohtml.parse_xml(begun).feed()
    except (turbohtml.HTMLParseError, RecursionError):
        # Many feeds are not well-formed, for example because of &nbsp; in them.
        feed = parse_as_html().feed()
    if feed is None:
        raise ParseFailed("The page is no RSS, Atom or JSON feed")
    found: dict[str, Any] = {name: getattr(feed, name) for name in _FEED}
    found["link"] = _absolute(base, feed.link)
    found["entries"] = [
        {name: getattr(entry, name) for name in _ENTRY} | {"link": _absolute(base, entry.link)}
        for entry in feed.entries
    ]
    return found


def _read_json_feed(text: str, base: str) -> dict[str, Any]:
    """Read a feed of jsonfeed.org; what is not as its specification says is None."""
    try:
        feed = _decode_json(text)
    except (ValueError, RecursionError) as error:
        raise ParseFailed("The page is no RSS, Atom or JSON feed") from error
    if not isinstance(feed, dict) or "jsonfeed.org" not in str(feed.get("version")):
        raise ParseFailed("The page is JSON, but no JSON Feed: it has no version of jsonfeed.org")
    items = feed.get("items")
    return {
        "type": "json",
        "title": _text(feed, "title"),
        "link": _absolute(base, _text(feed, "home_page_url")),
        "description": _text(feed, "description"),
        "updated": None,
        "entries": [_json_entry(item, base) for item in items if isinstance(item, dict)]
        if isinstance(items, list)
        else [],
    }


def _json_entry(item: dict[str, Any], base: str) -> dict[str, Any]:
    authors = item.get("authors")
    first = authors[0] if isinstance(authors, list) and authors else item.get("author")
    return {
        "title": _text(item, "title"),
        "link": _absolute(base, _text(item, "url") or _text(item, "external_url")),
        "id": _text(item, "id"),
        "published": _text(item, "date_published"),
        "updated": _text(item, "date_modified"),
        "author": _text(first, "name") if isinstance(first, dict) else None,
        "summary": _text(item, "summary"),
        "content": _text(item, "content_html") or _text(item, "content_text"),
    }


def _text(fields: dict[str, Any], name: str) -> str | None:
    """Return a field as text; ids are sometimes numbers."""
    value = fields.get(name)
    is_text = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    return without_surrogates(str(value)) if is_text else None


def _decode_json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        # It refuses half a pair of surrogates, such as a title that was cut in an emoji.
        return json.loads(text)


def without_surrogates(text: str) -> str:
    """Return a text that can be encoded: half a pair of surrogates becomes a replacement character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _absolute(base: str, url: str | None) -> str | None:
    try:
        return join(base, url) if url else None
    except InvalidUrl:
        return None
