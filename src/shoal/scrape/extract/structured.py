"""JSON-LD, microdata, Open Graph and the usual metadata of a page."""

from collections.abc import Iterator
from typing import Any

import turbohtml

from shoal.core.errors import InvalidUrl, ParseFailed
from shoal.core.urls import join
from shoal.scrape.text import text_of

MAX_OBJECTS = 100_000  # of one page
MAX_REFERENCES = 200  # each may repeat a large part of the page

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
    if len(document.select("[itemref]")) > MAX_REFERENCES:
        raise ParseFailed(f"The page's microdata has more than {MAX_REFERENCES} references")
    try:
        items = [_as_dict(item) for item in document.microdata(base_url=base)]
    except RecursionError as error:
        raise ParseFailed("The page's microdata is nested too deeply") from error
    return [item for item in items if kind is None or _is_of(item.get("@type"), kind)]


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
        "canonical": _absolute(base, link.attr("href") if link is not None else metas.get("og:url")),
        "language": (root.attr("lang") or "").strip() if root is not None else "",
    }
    for name, sources in _META.items():
        found[name] = next((metas[source] for source in sources if metas.get(source)), "")
    found["image"] = _absolute(base, found["image"])
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


def _absolute(base: str, url: str | None) -> str:
    try:
        return join(base, url) if url else ""
    except InvalidUrl:
        return ""
