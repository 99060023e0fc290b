"""The names of turbohtml that Shoal uses."""

from shoal.core.lazy.dataclasses import used_by_imports

# It has thirty dataclasses, most of them options that no page needs: to compile their methods took 5 % of the
# CPU time of a short run.
with used_by_imports():
    from turbohtml import (
        Document,
        Element,
        HTMLParseError,
        IncrementalParser,
        MicrodataItem,
        Node,
        SelectorSyntaxError,
        Text,
        parse,
        parse_xml,
    )
    from turbohtml.detect import detect  # also registers the "whatwg-…" codecs

__all__ = [
    "Document",
    "Element",
    "HTMLParseError",
    "IncrementalParser",
    "MicrodataItem",
    "Node",
    "SelectorSyntaxError",
    "Text",
    "detect",
    "parse",
    "parse_xml",
]
