"""Which sitemaps the robots.txt of a host names."""

import re
from contextlib import suppress

from shoal.core.errors import InvalidUrl
from shoal.core.urls import join

MOST_READ = 500 << 10  # bytes
MOST_SITEMAPS = 1_000

_SITEMAP = re.compile(r"^[ \t]*site-?maps?[ \t]*:[ \t]*(\S+)", re.IGNORECASE | re.MULTILINE)


def origin_of(url: str) -> str:
    """Return scheme and host of a canonical URL."""
    return "/".join(url.split("/", 3)[:3])


def sitemaps_in(body: bytes, origin: str) -> list[str]:
    """Return the sitemaps that a robots.txt names, as canonical URLs, each once."""
    text = body[:MOST_READ].decode("utf-8", errors="replace").replace("\r", "\n")
    found: dict[str, None] = {}
    for named in _SITEMAP.findall(text)[:MOST_SITEMAPS]:
        with suppress(InvalidUrl):
            found[join(f"{origin}/", named)] = None
    return list(found)
