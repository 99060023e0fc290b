"""Words of Scrapy that are not Shoal's: the error that names each says what to write instead."""

import re
from collections.abc import Iterable

from shoal.core.errors import InvalidInput
from shoal.core.text import shorten

_OPTIONS = {
    "callback": "step=, such as step=detail",
    "cb_kwargs": "the values as payload: page.follow(link, rank=3), then page.payload['rank']",
    "meta": "the values as payload: page.follow(link, rank=3), then page.payload['rank']",
    "formdata": "form=",
    "dont_filter": "a task with a key of its own: Task(url=…, step=…, key='…'); a key enters a run once",
    "errback": "nothing: a page that fails becomes a dead letter. See: shoal dead list RUN",
}
_PAGE = {
    "meta": "page.payload",
    "cb_kwargs": "page.payload",
    "request": "page.task",
    "urljoin": "page.follow(href) or page.links(selector), which resolve links themselves",
    "follow_all": "for link in page.links(selector): yield page.follow(link)",
    "selector": "page.css(selector) or page.xpath(expression)",
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
    "css": "for node in page.css(selector): node.css(…)",
    "xpath": "for node in page.css(selector): node.xpath(…)",
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
    """Raise InvalidInput for a keyword of Scrapy's requests, which would become payload."""
    for word in given:
        if instead := _OPTIONS.get(word):
            raise InvalidInput(
                f"{word}= is a word of Scrapy. Write {instead}. "
                f"For a payload of that name: payload={{{word!r}: …}}"
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
