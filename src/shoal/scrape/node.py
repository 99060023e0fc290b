"""One element of a page, with the same verbs as the page itself."""

from typing import Any, overload

import msgspec
from turbohtml import Element, SelectorSyntaxError
from turbohtml import Node as Raw

from shoal.core.errors import InvalidInput, shorten
from shoal.scrape.text import text_of


class Node(msgspec.Struct, eq=False):  # a Struct, since it is made four times as fast
    """An element: its text, its attributes, and what is in it."""

    _raw: Element

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
        raw = self._raw if selector is None else first(self._raw, selector)
        return default if raw is None else text_of(raw)

    @overload
    def attr(self, name: str, /) -> str | None: ...
    @overload
    def attr(self, selector: str, name: str, /) -> str | None: ...
    def attr(self, one: str, two: str | None = None, /) -> str | None:
        """Return an attribute of this element, or of the first match in it; None if there is none."""
        if two is None:
            return self._raw.attr(one)
        raw = first(self._raw, one)
        return None if raw is None else raw.attr(two)

    def css(self, selector: str) -> list["Node"]:
        """Return the elements in this one that match a CSS selector, in document order."""
        return list(map(Node, every(self._raw, selector)))

    def css_first(self, selector: str) -> "Node | None":
        """Return the first element in this one that matches a CSS selector."""
        raw = first(self._raw, selector)
        return None if raw is None else Node(raw)

    def xpath(self, expression: str) -> "list[Node | str | float | bool]":
        """Return what an XPath expression finds from here: elements as nodes, text and attributes as str."""
        return evaluated(self._raw, expression)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self._raw == other._raw

    def __hash__(self) -> int:
        return hash(self._raw)

    def __repr__(self) -> str:
        return f"<Node {self.tag} {shorten(self.text(), 60)!r}>"


def every(raw: Raw, selector: str) -> list[Element]:
    """Return all matches of a CSS selector; raises InvalidInput for one that cannot be read."""
    try:
        return raw.select(selector)
    except (SelectorSyntaxError, TypeError, RecursionError) as error:
        raise _unreadable("a CSS selector", selector, error) from error


def first(raw: Raw, selector: str) -> Element | None:
    """Return the first match of a CSS selector; raises InvalidInput for one that cannot be read."""
    try:
        return raw.select_one(selector)
    except (SelectorSyntaxError, TypeError, RecursionError) as error:
        raise _unreadable("a CSS selector", selector, error) from error


def evaluated(raw: Raw, expression: str) -> "list[Node | str | float | bool]":
    """Return what an XPath expression finds, as a list; raises InvalidInput for one that cannot be read."""
    try:
        found = raw.xpath(expression)
    except (ValueError, TypeError, RecursionError) as error:
        raise _unreadable("an XPath expression", expression, error) from error
    return [_plain(one) for one in found] if isinstance(found, list) else [found]


def _plain(found: Any) -> "Node | str":
    if isinstance(found, Element):
        return Node(found)
    return str(found) if isinstance(found, str) else str(getattr(found, "data", ""))


def _unreadable(kind: str, text: object, error: Exception) -> InvalidInput:
    return InvalidInput(f"Not {kind}: {shorten(repr(text))}: {str(error).rpartition(': ')[2]}")
