"""One entry of a sitemap, and when it says that its page was changed."""

import re
from calendar import monthrange
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

DAY = timedelta(days=1)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(slots=True)
class Entry:
    """What a sitemap says of one page, or an index of one sitemap."""

    loc: str = ""
    lastmod: str = ""
    is_sitemap: bool = False
    is_feed: bool = False  # of a feed, where an address may be relative
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def has_address(self) -> bool:
        """Whether its `loc` is a URL or a path; sitemaps hold all kinds of text."""
        return self.is_feed or self.loc.startswith("/") or bool(_SCHEME.match(self.loc))

    def payload(self) -> dict[str, Any]:
        """Return what the entry says beside the address."""
        return {"lastmod": self.lastmod, **self.more} if self.lastmod else self.more


def latest(text: str) -> datetime | None:
    """Return the last moment that a date may mean; None if it is no date.

    "2026-02" is the end of that February: a filter must not drop what may be new.
    """
    try:
        return _iso(text)
    except (ValueError, OverflowError):
        pass
    try:
        return _aware(parsedate_to_datetime(text))  # as feeds write it
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _iso(text: str) -> datetime:
    if len(text) == 4:
        return datetime(int(text) + 1, 1, 1, tzinfo=UTC)
    if len(text) == 7 and text[4] == "-":
        year, month = int(text[:4]), int(text[5:])
        return datetime(year, month, monthrange(year, month)[1], tzinfo=UTC) + DAY
    moment = _aware(datetime.fromisoformat(text))
    return moment + DAY if len(text) == 10 else moment


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
