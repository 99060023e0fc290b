"""Whether a page that came without a browser is written by scripts, so that it needs one."""

import re

from shoal.core.errors import ParseFailed
from shoal.scrape.page import Page

LITTLE = 200  # characters of text that a page with something to say has at least
ALMOST_NOTHING = 40
ROOTS = "#root, #app, #__next, #__nuxt, #___gatsby, #svelte, #main-app, app-root, [data-reactroot], [ng-app]"
_ASKS = re.compile(r"java\s?script", re.IGNORECASE)


def is_written_by_scripts(page: Page, selector: str | None = None) -> bool:
    """Tell whether a page shows what it is about only once its scripts have run.

    With a CSS selector it is decided by that alone: what matches must be there.
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
    text = _visible(page)
    if len(text) < ALMOST_NOTHING:
        return True
    if len(text) >= LITTLE:
        return False
    asks = any(_ASKS.search(node.text()) for node in page.css("noscript"))
    roots = page.css(ROOTS)
    return asks or (bool(roots) and not any(node.text().strip() for node in roots))


def _visible(page: Page) -> str:
    """Return the text of the body but for what nobody sees."""
    hidden = "ancestor-or-self::*[self::script or self::style or self::noscript or self::template]"
    found = page.xpath(f"//body//text()[not({hidden})]")
    return " ".join(" ".join(str(part) for part in found[:LITTLE]).split())
