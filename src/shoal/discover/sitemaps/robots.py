"""The sitemaps listed in a robots.txt."""

import re
from contextlib import suppress

from shoal.core.errors import InvalidUrl
from shoal.core.urls import join

MAX_READ = 500 << 10  # bytes
MAX_SITEMAPS = 1_000

_SITEMAP = re.compile(r"^[ \t]*site-?maps?[ \t]*:[ \t]*(\S+)", re.IGNORECASE | re.MULTILINE)


def sitemaps_in(body: bytes, origin: str) -> list[str]:
    """Return the sitemaps that a robots.txt lists, as unique canonical URLs."""
    text = body[:MAX_READ].decode("utf-8", errors="replace").replace("\r", "\n")
    found: dict[str, None] = {}
    for named in _SITEMAP.findall(text)[:MAX_SITEMAPS]:
        with suppress(InvalidUrl):
            found[join(f"{origin}/", named)] = None
    return list(found)
