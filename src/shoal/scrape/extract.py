"""What a page says in a known form: structured data, its article, tables and feeds."""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import Any
from urllib.parse import urljoin

import msgspec
import turbohtml

from shoal.core.errors import InvalidUrl, ParseFailed
from shoal.core.urls import EDGES, REMOVED, join
from shoal.scrape.node import select_first, text_of
from shoal.scrape.parsing import MAX_TEXT

MAX_OBJECTS = 100_000  # of one page
# Of microdata: elements visited and characters of values. An item may refer to parts of the page that hold
# items with references of their own: 6 KB could repeat them a million times.
MAX_VISITS = 50_000_000
PROPERTY_COST, REFERENCE_COST = 400, 2_000  # visits, which take as long

_META = {
    "description": ("description", "og:description"),
    "image": ("og:image",),
    "site": ("og:site_name", "application-name"),
    "type": ("og:type",),
    "author": ("author", "article:author"),
    "published": ("article:published_time", "date"),
    "modified": ("article:modified_time", "last-modified"),
    "keywords": ("keywords",),
}


def read_jsonld(document: "turbohtml.Document", kind: str | None) -> list[dict[str, Any]]:
    """Return the objects of all JSON-LD scripts, those of lists and `@graph` singly; of one type if given."""
    found: list[dict[str, Any]] = []
    for one in _objects(document.json_ld()):
        if kind is None or _is_of(one.get("@type"), kind):
            found.append(one)
        if len(found) > MAX_OBJECTS:
            raise ParseFailed(f"The page holds more than {MAX_OBJECTS:,} JSON-LD objects")
    return found


def read_microdata(document: "turbohtml.Document", base: str, kind: str | None) -> list[dict[str, Any]]:
    """Return the items of the page's microdata, each property as a list; of one type if given."""
    _check_references(document)
    try:
        items = [_as_dict(item) for item in document.microdata(base_url=base)]
    except RecursionError as error:
        raise ParseFailed("The page's microdata is nested too deeply") from error
    return [item for item in items if kind is None or _is_of(item.get("@type"), kind)]


def _check_references(document: "turbohtml.Document") -> None:
    """Raise ParseFailed if the page's microdata repeats parts of the page too often."""
    named = {element.attr("id"): element for element in reversed(document.select("[id]"))}
    every, visits = len(document.select("*")), 0
    parts: list[tuple[turbohtml.Node, frozenset[str]]] = [(document, frozenset())]
    while parts:
        part, path = parts.pop()
        visits += len(part.select("*"))
        own = [part] if isinstance(part, turbohtml.Element) else []
        for element in [*own, *part.select("[itemprop], [itemref]")]:
            if element.attr("itemprop") is not None:
                visits += PROPERTY_COST + len(element.text)
            # The parser does not enter an item that it is reading, and looks for each name in the whole page.
            names = set((element.attr("itemref") or "").split()) - path
            visits += (REFERENCE_COST + every) * len(names)
            parts.extend((named[name], path | {name}) for name in names & named.keys())
            if visits > MAX_VISITS:
                raise ParseFailed("The page's microdata repeats parts of the page too often to read it")


def read_opengraph(document: "turbohtml.Document", base: str) -> dict[str, str]:
    """Return the Open Graph properties without `og:`, with absolute URLs."""
    return dict(document.opengraph(base_url=base))


def read_metadata(document: "turbohtml.Document", base: str) -> dict[str, str]:
    """Return the title, description, canonical URL, language and similar, as far as the page has them."""
    metas: dict[str, str] = {}
    for raw in document.select("meta[content]"):
        name = raw.attr("property") or raw.attr("name")
        if name:
            metas.setdefault(name.strip().lower(), " ".join((raw.attr("content") or "").split()))
    title, root = document.select_one("title"), document.select_one("html[lang]")
    link = document.select_one("link[rel~=canonical][href]")
    found = {
        "title": (text_of(title) if title is not None else "") or metas.get("og:title", ""),
        "canonical": _absolute_link(base, link.attr("href") if link is not None else metas.get("og:url")),
        "language": (root.attr("lang") or "").strip() if root is not None else "",
    }
    for name, sources in _META.items():
        found[name] = next((metas[source] for source in sources if metas.get(source)), "")
    found["image"] = _absolute_link(base, found["image"])
    return {name: value for name, value in found.items() if value}


def _objects(values: list[Any]) -> Iterator[dict[str, Any]]:
    stack = list(reversed(values))
    while stack:
        value = stack.pop()
        if isinstance(value, list):
            stack.extend(reversed(value))
        elif isinstance(value, dict) and "@graph" in value:
            graph = value["@graph"]
            stack.extend(reversed(graph) if isinstance(graph, list) else [graph])
        elif isinstance(value, dict):
            yield value


def _is_of(given: Any, kind: str) -> bool:
    """Tell whether a type, or one of several, is a kind: "Product" is https://schema.org/Product too."""
    names = given if isinstance(given, list) else str(given or "").split()
    return any(str(name) == kind or str(name).rpartition("/")[2] == kind for name in names)


def _as_dict(item: "turbohtml.MicrodataItem") -> dict[str, Any]:
    known = {"@type": item.type, "@id": item.id}
    found: dict[str, Any] = {name: value for name, value in known.items() if value}
    for name, values in item.properties.items():
        found[name] = [_as_dict(one) if isinstance(one, turbohtml.MicrodataItem) else one for one in values]
    return found


def _absolute_link(base: str, url: str | None) -> str:
    try:
        return join(base, url) if url else ""
    except InvalidUrl:
        return ""


MAX_LINKED = 0.1  # of the text that a larger element adds; navigation is nearly all links
MAX_STEPS = 12  # each reads all text of an element
ARTICLES = ("Article", "NewsArticle", "BlogPosting", "TechArticle", "Report")


def read_article(tree: "turbohtml.Document") -> dict[str, Any]:
    """Return the title, author, date, language and main text of a page; None for what it does not have."""
    found, content = tree.article(), main_element(tree)
    stated = next((one for kind in ARTICLES for one in read_jsonld(tree, kind)), {})
    return {
        "title": found.title or _plain_text(stated.get("headline")),
        "author": found.byline or _name(stated.get("author")),
        "date": found.date or _plain_text(stated.get("datePublished")),
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
    own.rewrite_links(partial(_shown_link, base))
    # The parser crashes on some elements that have no parent, such as <a> around a paragraph.
    turbohtml.Element("div").append(own)
    return own.to_markdown()


def _shown_link(base: str, url: str) -> str | None:
    """Return a link as an absolute URL; empty if it would run a script where the Markdown is shown."""
    plain = url.translate(REMOVED).strip(EDGES)[:12].lower()
    if plain.startswith(("javascript:", "vbscript:", "data:")) and not plain.startswith("data:image/"):
        return ""
    try:
        return urljoin(base, url)  # as it is written: the canonical form has no fragment
    except ValueError:
        return None


MARKED_AS_MAIN, MAX_LINKED_IN_MAIN = "main, [role=main]", 0.5


def main_element(tree: "turbohtml.Document") -> "turbohtml.Element | None":
    """Return the element that holds the main content; None if no text reads as such.

    The parser finds the element that reads most like an article, which may be one of several sections. So
    it is extended to its parents, as long as what they add is text rather than links; and to the one element
    that the page itself calls its main one, unless that is a list of links.
    """
    best = tree.main_content()
    marked = tree.select(MARKED_AS_MAIN)
    if len(marked) == 1 and _linked(marked[0]) <= MAX_LINKED_IN_MAIN * len(marked[0].text):
        best = marked[0] if best is None or marked[0] in best.ancestors else best
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


def _plain_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _name(value: Any) -> str | None:
    """Return the name of an author in JSON-LD: text, an object, or a list of them."""
    first = value[0] if isinstance(value, list) and value else value
    return _plain_text(first.get("name") if isinstance(first, dict) else first)


MAX_COLUMNS = 1_000
MAX_CELLS = 1_000_000  # 30 bytes of HTML can span 65,534 rows and 1,000 columns

_CELLS = frozenset({"td", "th"})
_GROUPS = frozenset({"thead", "tbody", "tfoot"})


def read_table(table: "turbohtml.Element") -> list[dict[str, str]]:
    """Return the rows of a table as dicts; columns without a name have their number, from 1.

    The names are those of the first row, if all of it is header cells or it is in `thead`. A cell that spans
    several rows or columns is repeated in each.
    """
    rows = list(_rows(table))
    grid = _fill(rows)
    if not grid:
        return []
    first = [cell for cell in rows[0].children if _is_cell(cell)]
    has_names = _tag(rows[0].parent) == "thead" or all(_tag(cell) == "th" for cell in first)
    width = max(map(len, grid))
    names = _unique_names(grid[0] if has_names else [], width)
    body = grid[1:] if has_names else grid
    return [dict(zip(names, [*row, *[""] * (width - len(row))], strict=True)) for row in body]


def _rows(table: "turbohtml.Element") -> "Iterator[turbohtml.Element]":
    """Yield the rows of a table, without those of tables inside it."""
    for child in table.children:
        if _tag(child) == "tr":
            yield child  # type: ignore[misc]
        elif _tag(child) in _GROUPS:
            yield from (row for row in child.children if _tag(row) == "tr")  # type: ignore[misc]


def _fill(rows: "list[turbohtml.Element]") -> list[list[str]]:
    grid: list[list[str]] = []
    spanning: dict[int, tuple[int, str]] = {}  # by column: the rows that a cell still covers, and its text
    cells = 0
    for row in rows:
        texts: list[str] = []
        for cell in row.children:
            if not _is_cell(cell):
                continue
            _repeat_spanning(texts, spanning)
            text = text_of(cell)  # type: ignore[arg-type]
            below = _span(cell, "rowspan", len(rows)) - 1
            for _ in range(_span(cell, "colspan", MAX_COLUMNS)):
                if below:
                    spanning[len(texts)] = (below, text)
                texts.append(text)
            if len(texts) > MAX_COLUMNS:
                raise ParseFailed(f"The table has more than {MAX_COLUMNS:,} columns")
        _repeat_spanning(texts, spanning)
        cells += len(texts)
        if cells > MAX_CELLS:
            raise ParseFailed(f"The table has more than {MAX_CELLS:,} cells")
        grid.append(texts)
    return [texts for texts in grid if texts]


def _repeat_spanning(texts: list[str], spanning: dict[int, tuple[int, str]]) -> None:
    """Add the cells of rows above that cover the next columns."""
    while (found := spanning.pop(len(texts), None)) is not None:
        left, text = found
        if left > 1:
            spanning[len(texts)] = (left - 1, text)
        texts.append(text)


def _unique_names(given: list[str], width: int) -> list[str]:
    names: dict[str, None] = {}
    for number in range(1, width + 1):
        plain = (given[number - 1] if number <= len(given) else "") or str(number)
        name, count = plain, 1
        while name in names:
            count += 1
            name = f"{plain} {count}"
        names[name] = None
    return list(names)


def _span(cell: object, name: str, most: int) -> int:
    text = getattr(cell, "attr", lambda name: None)(name) or ""
    # As browsers do: 0 rows are all that follow.
    if not text.isascii() or not text.strip().isdecimal():
        return 1
    found = int(text[:9])
    return most if found == 0 and name == "rowspan" else max(1, min(found, most))


def _is_cell(node: object) -> bool:
    return _tag(node) in _CELLS


def _tag(node: object) -> str:
    return node.tag if isinstance(node, turbohtml.Element) else ""


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
        "title": _text_field(feed, "title"),
        "link": _absolute(base, _text_field(feed, "home_page_url")),
        "description": _text_field(feed, "description"),
        "updated": None,
        "entries": [_json_entry(item, base) for item in items if isinstance(item, dict)]
        if isinstance(items, list)
        else [],
    }


def _json_entry(item: dict[str, Any], base: str) -> dict[str, Any]:
    authors = item.get("authors")
    first = authors[0] if isinstance(authors, list) and authors else item.get("author")
    return {
        "title": _text_field(item, "title"),
        "link": _absolute(base, _text_field(item, "url") or _text_field(item, "external_url")),
        "id": _text_field(item, "id"),
        "published": _text_field(item, "date_published"),
        "updated": _text_field(item, "date_modified"),
        "author": _text_field(first, "name") if isinstance(first, dict) else None,
        "summary": _text_field(item, "summary"),
        "content": _text_field(item, "content_html") or _text_field(item, "content_text"),
    }


def _text_field(fields: dict[str, Any], name: str) -> str | None:
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
