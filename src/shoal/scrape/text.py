"""The text of an element as a person reads it: words of two paragraphs do not run together."""

from collections.abc import Sequence

from turbohtml import Element, Node, Text

# What starts a new line on the screen, or a new field.
_BLOCKS = """
    address article aside blockquote body br button caption center dd details dialog dir div dl dt fieldset
    figcaption figure footer form frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li listing main
    menu nav noscript ol optgroup option p plaintext pre search section select summary table tbody td textarea
    tfoot th thead title tr ul xmp
"""
_APART = frozenset(_BLOCKS.split())
_UNSEEN = frozenset({"script", "style", "template"})


def text_of(raw: Element) -> str:
    """Return the text of an element, every run of whitespace as one space, none at the ends."""
    children = raw.children
    simple = len(children) == 1 and isinstance(children[0], Text)
    return " ".join((raw.text if simple else _spaced(children)).split())


def _spaced(nodes: Sequence[Node]) -> str:
    parts: list[str] = []
    ahead: list[Node | str] = [*reversed(nodes)]
    while ahead:
        node = ahead.pop()
        if isinstance(node, str):
            parts.append(node)
        elif isinstance(node, Text):
            parts.append(node.data)
        elif isinstance(node, Element) and node.tag not in _UNSEEN:
            if node.tag in _APART:
                parts.append(" ")
                ahead.append(" ")
            ahead.extend(reversed(node.children))
    return "".join(parts)
