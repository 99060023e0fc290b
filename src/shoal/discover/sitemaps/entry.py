"""One entry of a sitemap, and its modification date."""

import re
from calendar import monthrange
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

DAY = timedelta(days=1)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(slots=True)
class SitemapEntry:
    """An entry of a sitemap for one page, or of an index for one sitemap."""

    loc: str = ""
    lastmod: str = ""
    is_sitemap: bool = False
    is_feed: bool = False  # from a feed, where a URL may be relative
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def has_url(self) -> bool:
        """Whether `loc` is a URL or a path; real sitemaps contain arbitrary text."""
        return self.is_feed or self.loc.startswith("/") or bool(_SCHEME.match(self.loc))

    def payload(self) -> dict[str, Any]:
        """Return the data of the entry except its URL."""
        return {"lastmod": self.lastmod, **self.more} if self.lastmod else self.more


def latest_time(text: str) -> datetime | None:
    """Return the latest time that a date may mean; None if it is not a date.

    "2026-02" is the end of that February: a filter must not drop what may be newer.
    """
    try:
        return _parse_iso(text)
    except (ValueError, OverflowError):
        pass
    try:
        return _aware(parsedate_to_datetime(text))  # the format of feeds
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _parse_iso(text: str) -> datetime:
    if len(text) == 4:
        return datetime(int(text) + 1, 1, 1, tzinfo=UTC)
    if len(text) == 7 and text[4] == "-":
        year, month = int(text[:4]), int(text[5:])
        return datetime(year, month, monthrange(year, month)[1], tzinfo=UTC) + DAY
    moment = _aware(datetime.fromisoformat(text))
    return moment + DAY if len(text) == 10 else moment


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
