"""The main content of a page: as an article with its title, author and date, and as Markdown."""

from copy import deepcopy
from typing import Any

import turbohtml

from shoal.scrape.extract.structured import read_jsonld
from shoal.scrape.node import select_first

MAX_LINKED = 0.1  # of the text that a larger element adds; navigation is nearly all links
MAX_STEPS = 12  # each reads all text of an element
ARTICLES = ("Article", "NewsArticle", "BlogPosting", "TechArticle", "Report")


def read_article(tree: "turbohtml.Document") -> dict[str, Any]:
    """Return the title, author, date, language and main text of a page; None for what it does not have."""
    found, content = tree.article(), main_element(tree)
    stated = next((one for kind in ARTICLES for one in read_jsonld(tree, kind)), {})
    return {
        "title": found.title or _text(stated.get("headline")),
        "author": found.byline or _name(stated.get("author")),
        "date": found.date or _text(stated.get("datePublished")),
        "language": found.lang,
        "text": content.to_text().strip() if content is not None else "",
    }


def read_markdown(tree: "turbohtml.Document", base: str, selector: str | None) -> str:
    """Return the first match, or the main content of the page, as Markdown with absolute links."""
    if selector is None:
        found = main_element(tree)
        raw = tree.select_one("body") if found is None else found
    else:
        raw = select_first(tree, selector)
    if raw is None:
        return ""
    own = deepcopy(raw)  # links are changed in place, and the page stays as it is
    own.resolve_links(base)
    return own.to_markdown()


def main_element(tree: "turbohtml.Document") -> "turbohtml.Element | None":
    """Return the element that holds the main content; None if no text reads as such.

    The parser finds the element that reads most like an article, which may be one of several sections. So
    it is extended to its parents, as long as what they add is text rather than links.
    """
    best = tree.main_content()
    for _ in range(MAX_STEPS):
        parent = best.parent if best is not None else None
        if best is None or not isinstance(parent, turbohtml.Element) or parent.tag == "html":
            break
        more = len(parent.text) - len(best.text)
        if _linked(parent) - _linked(best) > MAX_LINKED * more:
            break
        best = parent
    return best


def _linked(element: "turbohtml.Element") -> int:
    """Return the number of characters in links."""
    return sum(len(link.text) for link in element.select("a[href]"))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _name(value: Any) -> str | None:
    """Return the name of an author in JSON-LD: text, an object, or a list of them."""
    first = value[0] if isinstance(value, list) and value else value
    return _text(first.get("name") if isinstance(first, dict) else first)
