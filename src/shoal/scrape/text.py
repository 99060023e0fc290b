"""The text of an element as displayed: words of two paragraphs do not run together."""

from collections.abc import Sequence

import turbohtml

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
