"""An element of a page, and its text."""

from collections.abc import Sequence
from typing import Any, overload

import msgspec
import turbohtml
from turbohtml import Element

from shoal.core.errors import InvalidInput
from shoal.core.text import shorten
from shoal.scrape.other_tools import missing_attribute, selector_instead_of

# Elements that start a new line on the screen, or a new field.
_BLOCKS = """
    address article aside blockquote body br button caption center dd details dialog dir div dl dt fieldset
    figcaption figure footer form frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li listing main
    menu nav noscript ol optgroup option p plaintext pre search section select summary table tbody td textarea
    tfoot th thead title tr ul xmp
"""
_BLOCK_TAGS = frozenset(_BLOCKS.split())
_HIDDEN_TAGS = frozenset({"script", "style", "template"})


def text_of(raw: "turbohtml.Element") -> str:
    """Return the text of an element, every run of whitespace as one space, none at the ends."""
    children = raw.children
    simple = len(children) == 1 and isinstance(children[0], turbohtml.Text)
    return " ".join((raw.text if simple else _join_text(children)).split())


def _join_text(nodes: "Sequence[turbohtml.Node]") -> str:
    parts: list[str] = []
    stack: list[turbohtml.Node | str] = [*reversed(nodes)]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            parts.append(node)
        elif isinstance(node, turbohtml.Text):
            parts.append(node.data)
        elif isinstance(node, turbohtml.Element) and node.tag not in _HIDDEN_TAGS:
            if node.tag in _BLOCK_TAGS:
                parts.append(" ")
                stack.append(" ")
            stack.extend(reversed(node.children))
    return "".join(parts)


class Node(msgspec.Struct, eq=False):  # a Struct, because creating one is four times as fast
    """An element: its text, attributes and descendants."""

    _raw: "Element"

    @property
    def tag(self) -> str:
        """The element's name in lower case, such as "a"."""
        return self._raw.tag

    @property
    def html(self) -> str:
        """The element as HTML, with its own tag."""
        return self._raw.html

    def text(self, selector: str | None = None, default: str = "") -> str:
        """Return the text of this element, or of the first match in it, with whitespace collapsed."""
        raw = self._raw if selector is None else select_first(self._raw, selector)
        return default if raw is None else text_of(raw)

    @overload
    def attr(self, name: str, /) -> str | None: ...
    @overload
    def attr(self, selector: str, name: str, /) -> str | None: ...
    def attr(self, one: str, two: str | None = None, /) -> str | None:
        """Return an attribute of this element, or of the first match in it; None if there is none."""
        if two is None:
            return self._raw.attr(one)
        raw = select_first(self._raw, one)
        return None if raw is None else raw.attr(two)

    def css(self, selector: str) -> "NodeList":
        """Return the elements in this one that match a CSS selector, in document order."""
        return NodeList(map(Node, select(self._raw, selector)))

    def css_first(self, selector: str) -> "Node | None":
        """Return the first element in this one that matches a CSS selector."""
        raw = select_first(self._raw, selector)
        return None if raw is None else Node(raw)

    def xpath(self, expression: str) -> "XPathResults":
        """Return what an XPath expression selects: elements as nodes, text and attributes as str."""
        return evaluate_xpath(self._raw, expression)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self._raw == other._raw

    def __hash__(self) -> int:
        return hash(self._raw)

    def __repr__(self) -> str:
        return f"<Node {self.tag} {shorten(self.text(), 60)!r}>"

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute("Node", name)


class NodeList(list[Node]):
    """The elements that a selector matches: a list, which says what to write for methods of Scrapy's."""

    __slots__ = ()

    def css(self, selector: str) -> "NodeList":
        """Return the elements in these that match a CSS selector, those of each element in turn."""
        return NodeList(found for node in self for found in node.css(selector))

    def xpath(self, expression: str) -> "XPathResults":
        """Return what an XPath expression selects from each element in turn."""
        return XPathResults(found for node in self for found in node.xpath(expression))

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute("NodeList", name)


class XPathResults(list["Node | str | float | bool"]):
    """What an XPath expression selects: elements as nodes, text and attributes as str."""

    __slots__ = ()

    def get(self, default: str | None = None) -> str | None:
        """Return the first text or attribute; raises InvalidInput if the expression selects elements."""
        return _as_text(self[0]) if self else default

    def getall(self) -> list[str]:
        """Return every text or attribute; raises InvalidInput if the expression selects elements."""
        return [_as_text(one) for one in self]

    extract, extract_first = getall, get  # as in older code for Scrapy

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute("XPathResults", name)


def select(raw: "turbohtml.Node", selector: str) -> "list[turbohtml.Element]":
    """Return all matches of a CSS selector; raises InvalidInput if it cannot be parsed."""
    try:
        return raw.select(selector)
    except (turbohtml.SelectorSyntaxError, TypeError, RecursionError) as error:
        raise _invalid_query("a CSS selector", selector, error) from error


def select_first(raw: "turbohtml.Node", selector: str) -> "turbohtml.Element | None":
    """Return the first match of a CSS selector; raises InvalidInput if it cannot be parsed."""
    try:
        return raw.select_one(selector)
    except (turbohtml.SelectorSyntaxError, TypeError, RecursionError) as error:
        raise _invalid_query("a CSS selector", selector, error) from error


def evaluate_xpath(raw: "turbohtml.Node", expression: str) -> XPathResults:
    """Return the results of an XPath expression as a list; raises InvalidInput if it cannot be parsed."""
    try:
        found = raw.xpath(expression)
    except (ValueError, TypeError, RecursionError) as error:
        raise _invalid_query("an XPath expression", expression, error) from error
    return XPathResults(map(_wrap, found) if isinstance(found, list) else (found,))


def _wrap(found: Any) -> "Node | str":
    if isinstance(found, turbohtml.Element):
        return Node(found)
    return str(found) if isinstance(found, str) else str(getattr(found, "data", ""))


def _as_text(found: "Node | str | float | bool") -> str:
    if isinstance(found, Node):
        # Scrapy returns HTML here, and most callers want text.
        raise InvalidInput(
            f"The XPath expression selects elements ({found.tag}), which are no text. "
            "Write //…/text() or //…/@href, or call node.text() or node.html of each"
        )
    return str(found)


def _invalid_query(kind: str, text: object, error: Exception) -> InvalidInput:
    instead = selector_instead_of(text)
    reason = f"write {instead}" if instead else str(error).rpartition(": ")[2]
    return InvalidInput(f"Not {kind}: {shorten(repr(text))}: {reason}")
