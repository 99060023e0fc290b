"""The parts of a URL, its section and its pattern, and a URL without session ids."""

import re
from typing import NamedTuple

# Numbers, hexadecimal ids, long runs of letters and digits: what differs between two pages of one template.
_ID = re.compile(
    r"[0-9a-f]{8}-[0-9a-f-]{27}|(?=[a-z]*[0-9])[0-9a-f]{8,}|[A-Za-z0-9_]{24,}|[0-9]+", re.IGNORECASE
)
_SESSION_NAMES = (
    "phpsessid|jsessionid|aspsessionid[a-z]*|sessionid|session_id|sessid|zenid|oscsid|cftoken|cfid"
)
_TOKEN = "(?:[0-9a-f]{16,}|(?=[a-z]*[0-9])[a-z0-9]{24,})"
_SESSION = re.compile(
    rf";(?:{_SESSION_NAMES})=[^/?;]*"
    r"|/\((?:[a-z]\([a-z0-9]{20,}\))+\)(?=/)"
    rf"|(?P<mark>[?&])(?:(?:{_SESSION_NAMES})=[^&]*|s(?:id)?={_TOKEN})(?=&|$)",
    re.IGNORECASE,
)
_MAY_HOLD_SESSION = re.compile(r"[?;(]")


class UrlParts(NamedTuple):
    """A canonical URL in parts."""

    host: str
    path: str
    segments: list[str]
    params: list[tuple[str, str]]

    @property
    def pattern(self) -> str:
        """The URL with ids replaced and only the names of its query: pages of one template share it."""
        names = "&".join(sorted({without_ids(name) for name, _ in self.params}))
        return f"{self.host}{without_ids(self.path)}{names and '?' + names}"

    @property
    def section(self) -> str:
        """The section of the site: the first folder, or the page itself if it has a query, or the root."""
        if len(self.segments) > 1 or (self.segments and self.path.endswith("/")):
            return f"{self.host}/{without_ids(self.segments[0])}/"
        return f"{self.host}{without_ids(self.path)}?" if self.params else f"{self.host}/"


def url_parts(url: str) -> UrlParts:
    """Split a canonical URL."""
    page, _, query = url.partition("?")
    host, _, path = page.split("//", 1)[1].partition("/")
    segments = [segment for segment in path.split("/") if segment]
    return UrlParts(host, f"/{path}", segments, [_split(param) for param in query.split("&") if param])


def without_ids(text: str) -> str:
    """Return a text with everything that looks like an id replaced by "#"."""
    return _ID.sub("#", text)


def strip_session(url: str) -> str:
    """Return a URL without the session ids that sites put into URLs of clients without cookies."""
    if not _MAY_HOLD_SESSION.search(url):
        return url
    bare, found = _SESSION.subn(lambda session: session["mark"] or "", url)
    if not found:
        return url
    page, _, query = bare.partition("?")
    query = "&".join(param for param in query.split("&") if param)
    return f"{page}?{query}" if query else page


def _split(param: str) -> tuple[str, str]:
    name, _, value = param.partition("=")
    return name, value
