"""What a robots.txt says to us, by RFC 9309."""

import re
from collections.abc import Iterator
from datetime import timedelta

from protego import Protego

from shoal.core.model import MINUTE

MOST_READ = 500 << 10  # bytes
MOST_SITEMAPS = 1_000
LONGEST_DELAY = 5 * MINUTE

_AGENT = re.compile(r"\s*user[- ]?agent\s*[:\s]\s*(\*|[a-z_-]*)", re.IGNORECASE)
_RULE = re.compile(r"\s*(?:allow|dis+al+[oa]w|diasllow|crawl[- ]delay)\s*[:\s]", re.IGNORECASE)
_SITEMAP = re.compile(r"\s*site-?maps?\s*[:\s]", re.IGNORECASE)
_LINE_END = re.compile(r"\r\n?|\n")
_PRODUCT = re.compile(r"[a-z_-]+", re.IGNORECASE)
_COMPATIBLE = re.compile(r"compatible;\s*([a-z_-]+)", re.IGNORECASE)


class RobotsRules:
    """The rules for one product; made from the lines that `relevant` returned."""

    __slots__ = ("_product", "_rules")

    def __init__(self, lines: str, product: str) -> None:
        self._product, self._rules = product, Protego.parse(lines)

    def allows(self, url: str) -> bool:
        """Say whether a canonical URL of the origin may be fetched."""
        return self._rules.can_fetch(url, self._product)

    @property
    def crawl_delay(self) -> timedelta | None:
        """The time that the site wants between two requests, at most five minutes; None if unsaid."""
        seconds = self._rules.crawl_delay(self._product)
        return None if seconds is None else timedelta(seconds=min(seconds, LONGEST_DELAY.total_seconds()))

    @property
    def sitemaps(self) -> tuple[str, ...]:
        """The sitemaps that are named, as they are spelled."""
        return tuple(self._rules.sitemaps)[:MOST_SITEMAPS]


def product_of(user_agent: str) -> str:
    """Return the name by which robots.txt addresses a user agent: "shoal" for "Shoal/1.0 (+https://…)"."""
    found = _PRODUCT.match(user_agent)
    if found is None:
        return "shoal"
    hidden = _COMPATIBLE.search(user_agent) if found[0].lower() == "mozilla" else None
    return (hidden[1] if hidden else found[0]).lower()


def relevant(body: bytes, product: str) -> str:
    """Return the lines of a robots.txt that concern a product or everyone.

    The parser gives each rule to each agent of its group, so that a file of many agents and many rules would
    cost gigabytes; and it lets unknown lines split a group, which the RFC does not.
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
        elif _SITEMAP.match(line):
            yield line


def _text(body: bytes) -> str:
    if len(body) > MOST_READ:
        # A line that is cut in two may forbid far more than the whole one.
        body = body[: body.rfind(b"\n", 0, MOST_READ) + 1]
    encoding = "utf-16" if body[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return body.decode(encoding, errors="replace")
