"""Tell whether a page fetched over plain HTTP needs a browser because scripts build its content."""

import re

from shoal.core.errors import ParseFailed
from shoal.scrape.page import Page

ENOUGH_TEXT = 200  # characters; a page with as many has content
TOO_LITTLE_TEXT = 40  # characters; a page with fewer has none
ROOTS = "#root, #app, #__next, #__nuxt, #___gatsby, #svelte, #main-app, app-root, [data-reactroot], [ng-app]"
_JAVASCRIPT = re.compile(r"java\s?script", re.IGNORECASE)


def needs_javascript(page: Page, selector: str | None = None) -> bool:
    """Tell whether a page shows its content only after its scripts have run.

    With a CSS selector, the page needs JavaScript if nothing matches it; nothing else is checked.
    """
    kind = page.headers.get("content-type", "text/html").partition(";")[0].strip().lower()
    if kind not in ("text/html", "application/xhtml+xml", ""):
        return False
    try:
        if selector:
            return page.css_first(selector) is None
        return _looks_empty(page)
    except ParseFailed:
        return False


def _looks_empty(page: Page) -> bool:
    if page.css_first("script") is None:
        return False
    text = _visible_text(page)
    if len(text) < TOO_LITTLE_TEXT:
        return True
    if len(text) >= ENOUGH_TEXT:
        return False
    mentions_js = any(_JAVASCRIPT.search(node.text()) for node in page.css("noscript"))
    roots = page.css(ROOTS)
    return mentions_js or (bool(roots) and not any(node.text().strip() for node in roots))


def _visible_text(page: Page) -> str:
    """Return the text of the body without hidden elements."""
    hidden = "ancestor-or-self::*[self::script or self::style or self::noscript or self::template]"
    found = page.xpath(f"//body//text()[not({hidden})]")
    return " ".join(" ".join(str(part) for part in found[:ENOUGH_TEXT]).split())
