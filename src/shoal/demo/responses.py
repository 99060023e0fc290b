"""Responses of the demo site, and of the sites of the examples."""

import json
from collections.abc import Mapping
from datetime import timedelta
from html import escape
from typing import Any

import msgspec

from shoal.core.model import ZERO

HTML = "text/html; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
XML = "application/xml"
JSON = "application/json"
SCRIPT = "text/javascript; charset=utf-8"
REASONS = {401: "Unauthorized", 404: "Not found"}

HeaderPairs = tuple[tuple[str, str], ...]

_PAGE = (
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
    "</head>\n<body>\n<h1>{title}</h1>\n{main}\n</body>\n</html>\n"
)


class ShopResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A response, and how long to delay it."""

    status: int = 200
    body: bytes = b""
    content_type: str = HTML
    headers: HeaderPairs = ()
    wait: timedelta = ZERO


def text_response(text: str, content_type: str = HTML, status: int = 200) -> ShopResponse:
    """Return a text."""
    return ShopResponse(status=status, body=text.encode(), content_type=content_type)


def json_response(data: Any, status: int = 200, headers: HeaderPairs = ()) -> ShopResponse:
    """Return data as JSON."""
    body = json.dumps(data, ensure_ascii=False).encode()
    return ShopResponse(status=status, body=body, content_type=JSON, headers=headers)


def page_response(title: str, main: str, status: int = 200, headers: HeaderPairs = ()) -> ShopResponse:
    """Return a page; `title` is plain text, `main` is HTML."""
    text = _PAGE.format(title=escape(title), main=main)
    return ShopResponse(status=status, body=text.encode(), headers=headers)


def error_page(status: int) -> ShopResponse:
    """Return the page of an error status."""
    return page_response(REASONS[status], "<p>Try another page.</p>", status)


def link_list(links: Mapping[str, str]) -> str:
    """Return links as a list, by their addresses."""
    rows = (f'<li><a href="{escape(href)}">{escape(text)}</a></li>' for href, text in links.items())
    return "\n".join(["<ul>", *rows, "</ul>"])
