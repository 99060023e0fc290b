"""Whether what a racer wrote is what the pages hold."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from urllib.parse import urldefrag

from tools.bench.crawl.site import Truth


class WrongOutput(Exception):
    """A racer missed pages, invented some, or misread them; its time says nothing."""


def check(lines: Iterable[str], truths: Sequence[Truth], origin: str) -> None:
    """Raise WrongOutput unless every page is there once, with its title and its number of links."""
    found = Counter(map(_facts, lines))
    wanted = Counter((f"{origin}{truth.path}", truth.title, truth.links) for truth in truths)
    if found == wanted:
        return
    missing, extra = wanted - found, found - wanted
    example = next(iter(extra or missing))
    lacking = f"{missing.total():,} of {wanted.total():,} pages missing or misread"
    raise WrongOutput(f"{lacking}, {extra.total():,} lines too many, such as {example}")


def _facts(line: str) -> tuple[str, str, int]:
    found = json.loads(line)
    # The part behind "#" is the reader's business: with and without it, it is the same page.
    return urldefrag(found["url"]).url, found["title"], found["links"]
