"""Responses that sections share: JSON, a plain page, errors."""

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from shoal.demo.http import ShopRequest
from shoal.demo.routes import JSON, ShopResponse

_PAGE = (
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
    "<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}}"
    "article{{border-top:1px solid #ddd;padding:.5rem 0}}</style>\n"
    "</head>\n<body>\n<h1>{title}</h1>\n{main}\n</body>\n</html>\n"
)
REASONS = {401: "Unauthorized", 404: "Not found", 405: "Not allowed", 429: "Too many requests"}

HeaderPairs = tuple[tuple[str, str], ...]


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


def page_number(request: ShopRequest) -> int:
    """Return the page that the query asks for, 1 by default, 0 if it is not a number."""
    number = request.path.partition("?page=")[2] or "1"
    return int(number) if number.isdecimal() and len(number) < 7 else 0
