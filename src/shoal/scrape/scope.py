"""Which URLs a scraper may fetch: pure functions of the current page's URL and the link."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Self

import msgspec

from shoal.core.errors import InvalidSetting, InvalidUrl, OutOfScope
from shoal.core.patterns import glob_expression, regular
from shoal.core.text import shorten
from shoal.core.urls import bare_host, canonical, site_of
from shoal.core.values import read_words

_RULES = ("host", "site", "any")
_NAMES_HTTP = re.compile(r"(?:re:\^?)?http://")
_LOOKS_LIKE_A_PATTERN = re.compile(r"re:|.*[*./:]")

Matcher = Callable[[str], object]


class Scope(msgspec.Struct, frozen=True):
    """Where links and redirects may lead: "host", "site", "any", or patterns."""

    rule: str
    patterns: tuple[str, ...] = ()

    @classmethod
    def host(cls) -> Self:
        """The host of the page that the link is on; the default."""
        return cls("host")

    @classmethod
    def read(cls, key: str, value: Any) -> Self:
        """Read "host", "site", "any", a pattern or a list of patterns; raises InvalidSetting."""
        if value in _RULES:
            return cls(value)
        patterns = read_words(key, value)
        if not patterns:
            raise InvalidSetting(key, "must not be empty; write 'host', 'site', 'any' or patterns")
        for pattern in patterns:
            _check(key, pattern)
        return cls("patterns", patterns)

    def allows(self, url: str, *, origin: str | None) -> bool:
        """Tell whether a link of `origin`, a task's URL, may lead to `url`; both in canonical form."""
        if self.rule == "any":
            return True
        if self.rule == "patterns":
            return any(_matcher(pattern)(url) for pattern in self.patterns)
        if origin is None:  # a task without a URL: the link comes from the user's own code
            return True
        here, there = bare_host(origin), bare_host(url)
        return here == there or (self.rule == "site" and site_of(here) == site_of(there))

    def check(self, url: str, *, origin: str | None) -> None:
        """Raise OutOfScope unless a redirect from `origin` may lead to `url`; neither need be canonical."""
        try:
            target, source = canonical(url), origin and canonical(origin)
        except InvalidUrl as error:
            raise OutOfScope(str(error)) from error
        if not self.allows(target, origin=source):
            raise OutOfScope(f"{shorten(url)} is out of scope: {self}. Widen it, for example: scope='any'")

    def secure_url(self, url: str, *, origin: str | None) -> str | None:
        """Return the URL to use for a request with secret headers: from https only to https, else None.

        Both are in canonical form. A pattern that begins with http:// is the operator's consent to http.
        """
        if origin is None or not origin.startswith("https:") or not url.startswith("http:"):
            return url
        if any(_NAMES_HTTP.match(pattern) and _matcher(pattern)(url) for pattern in self.patterns):
            return url
        has_port = ":" in url.split("/", 3)[2].rpartition("]")[2]  # that port does not serve TLS as well
        return None if has_port else f"https:{url[5:]}"

    def __str__(self) -> str:
        return ", ".join(map(repr, self.patterns)) or repr(self.rule)


def _check(key: str, pattern: str) -> None:
    if not _LOOKS_LIKE_A_PATTERN.match(pattern):
        known = "'host', 'site', 'any' or a pattern such as 'https://example.com/blog/*'"
        raise InvalidSetting(key, f"must be {known}, got {shorten(repr(pattern))}")
    try:
        _matcher(pattern)
    except ValueError as error:
        raise InvalidSetting(key, f"holds {pattern!r}, which {error}") from error


@lru_cache(maxsize=256)
def _matcher(pattern: str) -> Matcher:
    """Return the matcher of a pattern: a regular expression after "re:", else a glob; "*" is any text."""
    if pattern.startswith("re:"):
        regular(pattern[3:])  # raises if a crafted link could make it run for hours
        return re.compile(pattern[3:]).search
    scheme, _, rest = pattern.rpartition("://")
    host, slash, path = rest.partition("/")
    # In a host "*" stops at the slash; otherwise a path could match as a host.
    where = glob_expression(host, ".*" if host == "*" else "[^/]*") + ("" if ":" in host else r"(?::\d+)?")
    what = f"/{glob_expression(path, '.*')}" if slash else "(?:/.*)?"
    return re.compile(f"{glob_expression(scheme, '[^/]*') or 'https?'}://{where}{what}", re.DOTALL).fullmatch
