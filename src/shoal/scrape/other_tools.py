"""Words of Scrapy, httpx and others that are not Shoal's: the error for each says what to write instead."""

import re
from collections.abc import Iterable

from shoal.core.errors import InvalidInput
from shoal.core.text import shorten

_OPTIONS = {
    "callback": "step=, such as step=detail",
    "cb_kwargs": "the values as payload: page.follow(link, rank=3), then page.payload['rank']",
    "meta": "the values as payload: page.follow(link, rank=3), then page.payload['rank']",
    "formdata": "form=",
    "dont_filter": "a key of its own: page.follow(link, key='…'); a key enters a run once",
    "errback": "a function with @detail.on_error, which yields items and tasks for a failed task of the step",
}
# Options of HTTP clients, and misspelt ones.
_CLIENT_OPTIONS = {
    "data": "form={…} for fields, json={…} for JSON, or body=b'…' for bytes",
    "content": "body=b'…'",
    "files": "body=b'…' with the header content-type, encoded by you",
    "header": "headers={…}",
    "cookie": "cookies={…}",
    "param": "params={…}",
    "auth": "headers={'Authorization': …}, or the setting tokens, which keeps secrets out of the queue",
    "allow_redirects": "nothing: redirects are followed within the setting scope",
    "follow_redirects": "nothing: redirects are followed within the setting scope",
}
_PAGE = {
    "meta": "page.payload",
    "cb_kwargs": "page.payload",
    "request": "page.task",
    "follow_all": "for link in page.links(selector): yield page.follow(link)",
    "selector": "page.css(selector) or page.xpath(expression)",
    "get": "page.text(selector), or page.html for the whole page",
    "re": "import re, then re.findall(pattern, page.html)",
    "re_first": "import re, then re.search(pattern, page.html)",
    "content": "page.body",
    "status_code": "page.status",
    "cookies": "page.headers.all('set-cookie')",
    "raise_for_status": "nothing: an error status reaches no step, unless the setting statuses allows it",
    "soup": "page.css(selector)",
    "find": "page.css_first(selector)",
    "find_all": "page.css(selector)",
    "select": "page.css(selector)",
    "select_one": "page.css_first(selector)",
}
_FIRST_TEXT = "page.text(selector), or node.text() for an element"
_ALL_TEXTS = "[node.text() for node in page.css(selector)]"
_REGEX = "import re, then re.search(pattern, page.text(selector)) or re.findall(…)"
_RESULTS = {
    "get": _FIRST_TEXT,
    "extract_first": _FIRST_TEXT,
    "getall": _ALL_TEXTS,
    "extract": _ALL_TEXTS,
    "re": _REGEX,
    "re_first": _REGEX,
    "text": _FIRST_TEXT,
    "attr": "page.attr(selector, 'href'), or node.attr('href') for an element",
    "attrib": "page.attr(selector, 'href'), or node.attr('href') for an element",
    "find": "node.css_first(selector)",
    "find_all": "node.css(selector)",
    "select": "node.css(selector)",
    "select_one": "node.css_first(selector)",
}
_SETTINGS = {
    "start_urls": "start=[…]",
    "allowed_domains": "scope='site', or the hosts: scope=['example.com', '*.example.org']",
    "custom_settings": "the settings themselves: Scraper('books', rate='5/s', retries=3)",
    "download_delay": "delay='1s', or rate='1/s'",
    "rules": "page.links(selector) and page.follow(link, step=…) in a step",
}
_EXTENSION = re.compile(r"::(text|attr\(\s*(?P<name>[^)\s]+)\s*\))\s*$")


def refuse_options(given: Iterable[str]) -> None:
    """Raise InvalidInput for an option of another tool's requests, which would become payload."""
    for word in given:
        if instead := _OPTIONS.get(word) or _CLIENT_OPTIONS.get(word):
            what = "a word of Scrapy" if word in _OPTIONS else "no option of a request"
            raise InvalidInput(
                f"{word}= is {what}. Write {instead}. For a payload of that name: payload={{{word!r}: …}}"
            )


def missing_attribute(kind: str, name: str) -> AttributeError:
    """Return the error for an attribute that a page, an element or a list of them does not have."""
    instead = (_PAGE if kind == "Page" else _RESULTS).get(name)
    hint = f". In Shoal, write: {instead}" if instead else ""
    return AttributeError(f"{kind!r} object has no attribute {name!r}{hint}")


def setting_instead_of(name: str) -> str | None:
    """Return what to write for a setting of Scrapy's; None for another word."""
    return _SETTINGS.get(name.lower())


def selector_instead_of(selector: object) -> str | None:
    """Return what to write for a selector with `::text` or `::attr(name)`; None for another selector."""
    found = _EXTENSION.search(selector) if isinstance(selector, str) else None
    if found is None or not isinstance(selector, str):
        return None
    plain, name = shorten(selector[: found.start()].strip() or "*", 60), found["name"]
    if name:
        each = f"[node.attr({name!r}) for node in page.css({plain!r})]"
        return f"page.attr({plain!r}, {name!r}) for the first match, {each} for all"
    each = f"[node.text() for node in page.css({plain!r})]"
    return f"page.text({plain!r}) for the first match, {each} for all"
