"""The names of turbohtml that Shoal uses: `html.parse`. The first use of one imports turbohtml.

The process that starts a run loads its scraper and parses no page.
"""

from typing import TYPE_CHECKING

from shoal.core.lazy.dataclasses import used_by_imports

if TYPE_CHECKING:
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
    from turbohtml.detect import detect
else:

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        load()
        return globals()[name]


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


def load() -> None:
    """Import turbohtml, and register its "whatwg-…" codecs."""
    if "detect" in globals():
        return
    # It has thirty dataclasses, most of them options that no page needs: to compile their methods took 5 % of
    # the CPU time of a short run.
    with used_by_imports():
        import turbohtml
        from turbohtml.detect import detect
    names = {name: getattr(turbohtml, name) for name in __all__ if name != "detect"}
    globals().update(names | {"detect": detect})
