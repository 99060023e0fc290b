"""How pages show numbers, durations, moments and what was scraped."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import msgspec

from shoal.core.model import Counts
from shoal.core.redact import shown_address

NOTHING = "\u2013"  # a dash
MOST_COLUMNS = 12
MOST_TEXT = 4_000  # characters of one value that a page holds
SHORT = 28  # characters that are kept on one line
BRIEF = 80  # characters of a value that are shown unfolded
MEGABYTE = 1 << 20
VALUE = "value"  # the column of items that are no mappings


def number(value: float | None) -> str:
    """Return a number as people read it: "1,204", "3.5"."""
    if value is None:
        return NOTHING
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def seconds(value: float | timedelta | None) -> str:
    """Return a duration in the two units that matter: "3 s", "2 min 10 s", "4 h 5 min", "3 d 2 h"."""
    if value is None:
        return NOTHING
    exact = value.total_seconds() if isinstance(value, timedelta) else value
    if exact < 10:
        return f"{exact:.2g} s"
    whole = round(exact)
    for unit, name, part, smaller in (
        (86_400, "d", 3_600, "h"),
        (3_600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= unit:
            return f"{whole // unit:,} {name} {whole % unit // part} {smaller}"
    return f"{whole} s"


def moment(value: datetime | None) -> str:
    """Return a moment to the second, in UTC."""
    return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S") if value else NOTHING


def megabytes(value: Any) -> str:
    """Return a number of bytes as people read it."""
    return f"{value / MEGABYTE:,.0f} MB" if isinstance(value, int) else NOTHING


def names(value: Any) -> str:
    """Return a list of names, or that it is all of them."""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "all"
    return str(value) if value else "all"


def share(part: float, whole: float) -> float:
    """Return a part in percent, for the width of a bar."""
    return round(100 * part / whole, 2) if whole > 0 else 0.0


def parts_of_bar(counts: Counts) -> list[tuple[str, float, float]]:
    """Return the pieces of a progress bar: what it is, where it begins and how wide it is, in percent."""
    lost = counts.dead + counts.expired + counts.dropped
    pieces, at = [], 0.0
    for kind, count in (("done", counts.completed), ("lost", lost), ("held", counts.leased)):
        width = share(count, counts.tasks)
        pieces.append((kind, round(at, 2), width))
        at += width
    return pieces


def safe_href(url: Any) -> str | None:
    """Return a scraped URL if a link may lead there: http or https, without a user or password."""
    if not isinstance(url, str) or not url.isprintable():
        return None
    try:
        parts = urlsplit(url)
        is_plain = parts.hostname and parts.username is None and parts.password is None
    except ValueError:
        return None
    return url if url.lower().startswith(("http://", "https://")) and is_plain else None


def shown_url(url: str | None) -> str:
    """Return a URL for a person's eyes, without a password."""
    return shown_address(url) if url else NOTHING


def text_of(value: Any) -> str:
    """Return any value as text: JSON for what is nested."""
    if value is None:
        return NOTHING
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return msgspec.json.encode(value, enc_hook=str).decode()


def folded(value: Any) -> dict[str, Any]:
    """Return a value in brief and in full, the full one not longer than a page can bear."""
    text = text_of(value)
    return {
        "brief": text if len(text) <= BRIEF else f"{text[: BRIEF - 1]}…",
        "full": text[:MOST_TEXT] if len(text) > BRIEF else None,
        "more": max(0, len(text) - MOST_TEXT),
        "href": safe_href(value),
        "is_short": len(text) <= SHORT,
        "is_number": isinstance(value, int | float) and not isinstance(value, bool),
    }


def columns_of(records: Iterable[Any]) -> tuple[list[str], int]:
    """Return the columns of a table of items in the order they come up, and how many were left out."""
    found: dict[str, None] = {}
    for record in records:
        found |= dict.fromkeys(map(str, record) if isinstance(record, Mapping) else [VALUE])
    listed = list(found)
    return listed[:MOST_COLUMNS], max(0, len(listed) - MOST_COLUMNS)


def cells_of(record: Any, columns: Iterable[str]) -> list[dict[str, Any]]:
    """Return one record as the cells of a table."""
    row = (
        {str(key): value for key, value in record.items()} if isinstance(record, Mapping) else {VALUE: record}
    )
    return [folded(row.get(column)) for column in columns]


FILTERS = {
    "number": number,
    "seconds": seconds,
    "moment": moment,
    "megabytes": megabytes,
    "names": names,
    "safe_href": safe_href,
    "shown_url": shown_url,
    "parts_of_bar": parts_of_bar,
    "folded": folded,
}
