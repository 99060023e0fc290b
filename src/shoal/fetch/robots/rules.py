"""Parses robots.txt for our user agent (RFC 9309)."""

import re
from collections.abc import Iterator
from datetime import timedelta

from protego import Protego

from shoal.core.model import MINUTE

MAX_READ = 500 << 10  # bytes
MAX_DELAY = 5 * MINUTE

_AGENT = re.compile(r"\s*user[- ]?agent\s*[:\s]\s*(\*|[a-z_-]*)", re.IGNORECASE)
_RULE = re.compile(r"\s*(?:allow|dis+al+[oa]w|diasllow|crawl[- ]delay)\s*[:\s]", re.IGNORECASE)
_LINE_END = re.compile(r"\r\n?|\n")
_PRODUCT = re.compile(r"[a-z_-]+", re.IGNORECASE)
_COMPATIBLE = re.compile(r"compatible;\s*([a-z_-]+)", re.IGNORECASE)


class RobotsRules:
    """The rules for one product; made from the lines that `relevant` returned."""

    __slots__ = ("_product", "_rules")

    def __init__(self, lines: str, product: str) -> None:
        self._product, self._rules = product, Protego.parse(lines)

    def allows(self, url: str) -> bool:
        """Tell whether a canonical URL of the origin may be fetched."""
        return self._rules.can_fetch(url, self._product)

    @property
    def crawl_delay(self) -> timedelta | None:
        """The crawl delay of the site, at most five minutes; None if it sets none."""
        seconds = self._rules.crawl_delay(self._product)
        return None if seconds is None else timedelta(seconds=min(seconds, MAX_DELAY.total_seconds()))


def product_of(user_agent: str) -> str:
    """Return the product token of a user agent: "shoal" for "Shoal/1.0 (+https://…)"."""
    found = _PRODUCT.match(user_agent)
    if found is None:
        return "shoal"
    hidden = _COMPATIBLE.search(user_agent) if found[0].lower() == "mozilla" else None
    return (hidden[1] if hidden else found[0]).lower()


def relevant(body: bytes, product: str) -> str:
    """Return the lines of a robots.txt that apply to a product or to all.

    The parser copies each rule to each agent of its group, so that a file with many agents and many rules
    would need gigabytes; and it lets unknown lines split a group, which the RFC does not.
    """
    return "\n".join(_lines(_text(body), product))


def _lines(text: str, product: str) -> Iterator[str]:
    for_us = among_agents = False
    for line in _LINE_END.split(text):
        if agent := _AGENT.match(line):
            for_us, among_agents = for_us and among_agents, True
            if agent[1].lower() in (product, "*"):
                for_us = True
                yield f"User-agent: {agent[1].lower()}"
        elif _RULE.match(line):
            among_agents = False
            if for_us:
                yield line


def _text(body: bytes) -> str:
    if len(body) > MAX_READ:
        # A truncated line may disallow far more than the whole one.
        body = body[: body.rfind(b"\n", 0, MAX_READ) + 1]
    encoding = "utf-16" if body[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return body.decode(encoding, errors="replace")
