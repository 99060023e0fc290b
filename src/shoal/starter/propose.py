"""Proposes a scraper from the markup of a page: its items, their fields, the next page, structured data."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from math import log
from typing import Any, NamedTuple

import turbohtml
from turbohtml import Element

from shoal.scrape.node import text_of
from shoal.scrape.page import Page

FEWEST_ITEMS = 3
MOST_ELEMENTS = 20_000  # a page with more is proposed from its first ones
MOST_FIELDS = 12
ENOUGH_FIELDS = 3  # of a listing whose items need no page of their own
OFTEN = 0.5  # the share of items that have a field
# Classes that a style sheet or a script gives and takes, and those that a build names by a hash.
PASSING = re.compile(
    r"^(?:active|current|selected|first|last|odd|even|open|hidden|visible|disabled|clearfix|row|col(?:-.*)?)$"
    r"|[A-Za-z]*\d[A-Za-z\d]*[A-Za-z]\d|\d{3}|^.?$|^-?\d|[^\w-]"
)
# Names of fields, the more telling ones first.
WORDS = (
    *("title", "name", "headline", "author", "price", "rating", "stock", "availability", "date", "published"),
    *("location", "salary", "company", "brand", "category", "tags", "score", "comments", "views", "sku"),
    *("summary", "description", "text", "image", "phone", "address", "city"),
)


def quoted(text: str) -> str:
    """Return a string literal in double quotes, as the code around it has them."""
    return json.dumps(text, ensure_ascii=False)


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


INLINE = _set("b strong i em u s small br wbr mark sub sup code abbr font bdi")
PASSED_OVER = _set("script style template svg noscript option button input form")
CHROME = _set("nav header footer aside")
REPEATED = _set("li div section a dl")  # elements without a class that lists are made of
HEADINGS = _set("h1 h2 h3 h4 h5 h6")
NEXT_WORDS = _set(
    """next older more weiter n\u00e4chste suivant suivante siguiente pr\u00f3ximo pr\u00f3xima seguente
    successivo volgende n\u00e4sta neste n\u00e6ste dalej nast\u0119pna \u203a \u00bb \u2192 > >>"""
)
BESIDE_NEXT = _set("page pages posts entries results items load show seite p\u00e1gina pagina")
# Objects that describe the site and not the page.
COMMON_DATA = _set(
    """WebSite WebPage Organization BreadcrumbList ListItem SearchAction ImageObject SiteNavigationElement
    CollectionPage ItemList Person Corporation WPHeader WPFooter Review Rating Offer"""
)


class ProposedField(NamedTuple):
    """A field of an item, as an expression on the item's element."""

    name: str
    expression: str


class ProposedListing(NamedTuple):
    """The items that a page repeats."""

    selector: str
    fields: list[ProposedField]
    link: str  # the expression of the address of an item's page; "" if it has none
    first_link: str


class ProposedData(NamedTuple):
    """Structured data of a page: how it is read, and its fields."""

    call: str
    fields: list[ProposedField]


class Proposal(NamedTuple):
    """What a page seems to be."""

    listing: ProposedListing | None
    following: str  # the expression of the address of the next page; "" if there is none
    data: ProposedData | None


def propose(page: Page) -> Proposal:
    """Return what a page seems to be."""
    tree = turbohtml.parse(page.html)
    elements = [one for one in tree.select("body *")[:MOST_ELEMENTS] if one.tag not in PASSED_OVER]
    data = _find_data(page)
    return Proposal(_find_listing(page, elements), _find_next(tree), data)


def _classes(element: Element) -> list[str]:
    given = element.attr("class") or ""
    return [name for name in str(given).split() if not PASSING.search(name)]


def _own_selector(element: Element) -> str:
    """Return how to select elements like this one: by what it holds, or by its class."""
    if prop := element.attr("itemprop"):
        return f"[itemprop={prop}]" if re.fullmatch(r"[A-Za-z]\w*", prop) else element.tag
    return element.tag + "".join(f".{name}" for name in _classes(element)[:1])


# The items of a page.


def _find_listing(page: Page, elements: list[Element]) -> ProposedListing | None:
    groups: dict[str, list[Element]] = defaultdict(list)
    for element in elements:
        if selector := _group_selector(element):
            groups[selector].append(element)
    best, best_score = None, 0.0
    for selector, found in groups.items():
        if len(found) < FEWEST_ITEMS:
            continue
        rows = [one for one in found if text_of(one) and not _holds_another(one, selector)]
        if len(rows) < FEWEST_ITEMS:
            continue
        fields, richness, link, first = _find_fields(page, rows)
        if not fields:
            continue
        length = sum(min(len(text_of(one)), 400) for one in rows) / len(rows)
        score = richness * log(len(rows)) * log(length + 2) * (0.2 if _is_in_chrome(rows[0]) else 1)
        if score >= best_score:  # of elements that hold the same, the innermost
            best_score = score
            best = ProposedListing(selector, fields, link, first)
    return best


def _group_selector(element: Element) -> str:
    """Return the selector of the elements that an element is repeated with; "" if it has none."""
    parent, own = element.parent, _own_selector(element)
    if not isinstance(parent, Element) or element.tag in INLINE:
        return ""
    if own != element.tag or own == "article":
        return own
    if own == "tr":
        table = element.closest("table")
        return "" if table is None else f"{_own_selector(table)} tr:has(td)"  # no row of headers
    above = _own_selector(parent)
    return f"{above} > {own}" if own in REPEATED and above != parent.tag else ""


def _is_in_chrome(element: Element) -> bool:
    return any(isinstance(one, Element) and one.tag in CHROME for one in element.ancestors)


def _holds_another(element: Element, selector: str) -> bool:
    """Return whether an element only surrounds those that are alike."""
    return element.select_one(selector) is not None


class _Seen:
    """A selector below an item, with what it gives in each of them."""

    def __init__(self, element: Element) -> None:
        self.element = element  # the first
        self.values: list[list[str]] = []


def _find_fields(page: Page, rows: list[Element]) -> tuple[list[ProposedField], float, str, str]:
    """Return the fields of items, how many of them an item has, and how their pages are found."""
    rows = rows[:60]
    seen: dict[str, _Seen] = {}
    for row in rows:
        here: dict[str, list[str]] = defaultdict(list)
        for element in row.select("*"):
            if (value := _value_of(element)) and element.closest("pre") is None:
                selector = _selector_below(element, row)
                if selector not in here and row.select_one(selector) != element:
                    continue  # it would give another one
                seen.setdefault(selector, _Seen(element))
                here[selector].append(value)
        for selector, values in here.items():
            seen[selector].values.append(values)
    fields: dict[str, ProposedField] = {}
    richness = 0.0
    link, link_text, first_link = _find_link(page, rows)
    if link_text:  # the longer the text that leads to a page of its own, the more it is an item
        texts = [text_of(found) for row in rows if (found := row.select_one(link_text)) is not None]
        richness += min(sum(map(len, texts)) / len(rows), 60) / 20
    shown: set[tuple[str, ...]] = set()
    for selector, one in seen.items():
        if len(one.values) < max(FEWEST_ITEMS - 1, OFTEN * len(rows)) or len(fields) == MOST_FIELDS:
            continue
        said = tuple(" ".join(values) for values in one.values)
        name = _name_of(one.element, selector == link_text)
        # What is the same in all items may change from page to page if its name says what it is.
        if said in shown or (len(set(said)) == 1 and name not in WORDS):
            continue
        shown.add(said)
        if name and name not in fields:
            richness += len(one.values) / len(rows)
            several = sum(map(len, one.values)) > 1.5 * len(one.values)
            fields[name] = ProposedField(name, _expression(one, selector, several))
    if link and fields:
        fields["url"] = ProposedField("url", f"page.urljoin({link})")
    return list(fields.values()), richness, link, first_link


def _value_of(element: Element) -> str:
    """Return what an element alone says: its text if no part of it is an element that says more."""
    if element.tag == "img":
        return element.attr("src") or element.attr("data-src") or ""
    if element.tag == "meta":
        return element.attr("content") or ""
    if element.tag in PASSED_OVER or (element.tag in INLINE and not _classes(element)):
        return ""
    if whole := _whole_text(element):
        return whole
    inner = [one for one in element.select("*") if one.tag not in INLINE and text_of(one)]
    return "" if inner else text_of(element)


def _whole_text(element: Element) -> str:
    """Return the title of an element whose text is cut to fit; "" for other elements."""
    whole, text = element.attr("title") or "", text_of(element).rstrip(". …")
    return whole if text and len(whole) > len(text) and whole.startswith(text) else ""


def _selector_below(element: Element, row: Element) -> str:
    own = _own_selector(element)
    parent = element.parent
    if element.tag == "td" and own == "td":
        return f"td:nth-of-type({_column(element)})"
    if own != element.tag or not isinstance(parent, Element) or parent == row:
        return own
    above = _own_selector(parent)
    return f"{above} {own}" if above != parent.tag or parent.tag in HEADINGS else own


def _column(cell: Element) -> int:
    """Return the number of a cell in its row."""
    return 1 + sum(isinstance(one, Element) and one.tag == "td" for one in cell.previous_siblings)


def _header(cell: Element) -> str:
    """Return the header of a cell's column."""
    table = cell.closest("table")
    headers = [] if table is None else table.select("tr th")
    number = _column(cell) - 1
    return text_of(headers[number]) if number < len(headers) else ""


def _expression(one: _Seen, selector: str, several: bool) -> str:
    if several:
        return f"[node.text() for node in row.css({quoted(selector)})]"
    element = one.element
    if element.tag == "img":
        attribute = "src" if element.attr("src") else "data-src"
        return f"page.urljoin(row.attr({quoted(selector)}, {quoted(attribute)}))"
    if element.tag == "meta":
        return f'row.attr({quoted(selector)}, "content")'
    if _whole_text(element):
        return f'row.attr({quoted(selector)}, "title")'
    if element.tag == "time" and element.attr("datetime"):
        return f'row.attr({quoted(selector)}, "datetime")'
    return f"row.text({quoted(selector)})"


def _find_link(page: Page, rows: list[Element]) -> tuple[str, str, str]:
    """Return the expression of the address of an item's page, the selector of its text, the first address."""
    own = [row.attr("href") for row in rows if row.tag == "a"]
    if len(own) == len(rows) and len(set(own)) > 0.8 * len(own):
        return 'row.attr("href")', "", page.urljoin(own[0] or "")
    links = ((one, row) for row in rows for one in row.select("a[href]"))
    links = ((one, row) for one, row in links if text_of(one) or one.select_one("img"))
    tried = Counter(_selector_below(one, row) for one, row in links)
    # A heading's link is the item's; of others the one with most text.
    order = sorted(tried, key=lambda name: (name.split(" ")[0].split(".")[0] not in HEADINGS, -tried[name]))
    for selector in order:
        hrefs = [found.attr("href") for row in rows if (found := row.select_one(selector)) is not None]
        web = [
            href for href in hrefs if href and not href.startswith(("#", "javascript:", "mailto:", "tel:"))
        ]
        if len(web) > OFTEN * len(rows) and len(set(web)) > 0.8 * len(web):
            return f'row.attr({quoted(selector)}, "href")', selector, page.urljoin(web[0])
    return "", "", ""


def _name_of(element: Element, is_link: bool) -> str:
    """Return the name of a field: of its property, of a word in its class, of its element."""
    if prop := element.attr("itemprop"):
        return _identifier(prop)
    cell = element if element.tag == "td" else element.closest("td")
    if cell is not None and (header := _identifier(_header(cell))):
        return header
    own = _classes(element)
    above = _classes(element.parent) if isinstance(element.parent, Element) else []
    for names in (own, above):
        for word in WORDS:
            if any(word in re.split(r"[-_]|(?<=[a-z])(?=[A-Z])", name.lower()) for name in names):
                return word
    if element.tag == "img":
        return "image"
    if (
        element.tag in HEADINGS
        or is_link
        or (isinstance(element.parent, Element) and element.parent.tag in HEADINGS)
    ):
        return "title"
    if element.tag == "time":
        return "date"
    return _identifier((own or above or [{"p": "text", "a": "label"}.get(element.tag, element.tag)])[0])


def _identifier(name: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    return re.sub(r"\W+", "_", words, flags=re.ASCII).strip("_").lower()[:30]


# The next page.


def _find_next(tree: turbohtml.Document) -> str:
    for selector in ("a[rel~=next]", "link[rel~=next]", ".next a[href]", "a.next[href]"):
        if tree.select_one(selector) is not None:
            return f'page.attr({quoted(selector)}, "href")'
    for link in tree.select("a[href]"):
        text = text_of(link)
        words = set(text.lower().split())
        if words & NEXT_WORDS and words <= NEXT_WORDS | BESIDE_NEXT and not _leaves(link):
            path = f"//a[normalize-space()='{text}']/@href"
            return f"next(iter(page.xpath({quoted(path)})), None)"
    return ""


def _leaves(link: Element) -> bool:
    return (link.attr("href") or "").startswith(("#", "javascript:", "mailto:"))


# Structured data.


def _find_data(page: Page) -> ProposedData | None:
    for call, objects in (("jsonld", page.jsonld()), ("microdata", page.microdata())):
        kinds = [
            (kind, one) for one in objects for kind in [_kind_of(one)] if kind and kind not in COMMON_DATA
        ]
        if len({kind for kind, _ in kinds}) and len(kinds) <= FEWEST_ITEMS:
            kind, found = kinds[0]
            if fields := list(_data_fields(found, call)):
                return ProposedData(f"page.{call}({quoted(kind)})", fields[:MOST_FIELDS])
    return None


def _kind_of(data: dict[str, Any]) -> str:
    given = data.get("@type")
    first = given[0] if isinstance(given, list) and given else given
    return str(first or "").rpartition("/")[2]


def _data_fields(data: dict[str, Any], call: str) -> Iterator[ProposedField]:
    last = "" if call == "jsonld" else "[0]"
    for name, value in data.items():
        if name.startswith("@") or name == "url":
            continue
        path, inner = f"data[{quoted(name)}]{last}", value[0] if last and value else value
        if isinstance(inner, dict):
            for part in _first_of(inner, ("price", "priceCurrency", "availability", "ratingValue", "name")):
                yield ProposedField(
                    _identifier(part if part != "name" else name), f"{path}[{quoted(part)}]{last}"
                )
        elif isinstance(inner, str | int | float):
            yield ProposedField(_identifier(name), path)


def _first_of(data: dict[str, Any], names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if data.get(name))
