"""Template filters: numbers, durations, times and scraped values."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import msgspec

from shoal.core.model import Counts
from shoal.core.redact import shown_address
from shoal.core.values import counted
from shoal.fleet.status.quality import TrendRow
from shoal.fleet.status.rows.workers import join_names

NOTHING = "\u2013"  # a dash
MAX_COLUMNS = 12
MAX_TEXT = 4_000  # characters of one value on a page
SHORT = 28  # characters that stay on one line
BRIEF = 80  # characters of a value that are always visible
BRIEF_ERROR = 240  # the same of an error
MEGABYTE = 1 << 20
VALUE = "value"  # column of items that are not mappings


def number(value: float | None) -> str:
    """Format a number: "1,204", "3.5"."""
    if value is None:
        return NOTHING
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def duration(value: float | timedelta | None) -> str:
    """Format a duration in its two largest units: "3 s", "2 min 10 s", "4 h 5 min", "3 d 2 h"."""
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


def timestamp(value: datetime | str | None) -> str:
    """Format a time to the second, in UTC."""
    value = datetime.fromisoformat(value) if isinstance(value, str) else value
    return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S") if value else NOTHING


def setting(value: Any) -> str:
    """Format the value of a setting as it is typed."""
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def megabytes(value: Any) -> str:
    """Format a number of bytes as megabytes, small ones with a decimal."""
    if not isinstance(value, int):
        return NOTHING
    count = value / MEGABYTE
    return f"{count:,.1f} MB" if 0 < count < 9.95 else f"{count:,.0f} MB"


def percent(part: float, whole: float) -> float:
    """Return a part in percent, for the width of a bar."""
    return round(100 * part / whole, 2) if whole > 0 else 0.0


def trend_points(values: Sequence[float], most: float = 0) -> str:
    """Return the points of a line through values, in a chart of 100 by 20."""
    top = most or max(values, default=0) or 1
    step = 100 / max(len(values) - 1, 1)
    return " ".join(f"{place * step:.1f},{19 - 18 * value / top:.1f}" for place, value in enumerate(values))


def filled_in(field: str, trend: Sequence[TrendRow]) -> list[float]:
    """Return how much of a field, named STEP.FIELD, the runs of a trend have filled."""
    return [run.filled.get(field, 0.0) for run in trend]


def bar_segments(counts: Counts) -> list[tuple[str, float, float]]:
    """Return the segments of a progress bar: class, start and width in percent."""
    failed = counts.dead + counts.expired + counts.dropped
    segments, start = [], 0.0
    for kind, count in (("done", counts.completed), ("failed", failed), ("leased", counts.leased)):
        width = percent(count, counts.tasks)
        segments.append((kind, round(start, 2), width))
        start += width
    return segments


def safe_href(url: Any) -> str | None:
    """Return a scraped URL if it is safe to link: http or https, without a user or password."""
    if not isinstance(url, str) or not url.isprintable():
        return None
    try:
        parts = urlsplit(url)
        is_plain = parts.hostname and parts.username is None and parts.password is None
    except ValueError:
        return None
    return url if url.lower().startswith(("http://", "https://")) and is_plain else None


def display_url(url: str | None) -> str:
    """Return a URL for display, without its password."""
    return shown_address(url) if url else NOTHING


def text_of(value: Any) -> str:
    """Return any value as text; nested values as JSON."""
    if value is None:
        return NOTHING
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return msgspec.json.encode(value, enc_hook=str).decode()


def preview(value: Any, most: int = BRIEF) -> dict[str, Any]:
    """Return a value shortened and in full; the full text is bounded too."""
    text = text_of(value)
    return {
        "brief": text if len(text) <= most else f"{text[: most - 1]}…",
        "full": text[:MAX_TEXT] if len(text) > most else None,
        "more": max(0, len(text) - MAX_TEXT),
        "href": safe_href(value),
        "is_short": len(text) <= SHORT,
        "is_number": isinstance(value, int | float) and not isinstance(value, bool),
    }


def columns_of(records: Iterable[Any]) -> tuple[list[str], int]:
    """Return the columns of a table of items in order of appearance, and how many were left out."""
    found: dict[str, None] = {}
    for record in records:
        found |= dict.fromkeys(map(str, record) if isinstance(record, Mapping) else [VALUE])
    listed = list(found)
    return listed[:MAX_COLUMNS], max(0, len(listed) - MAX_COLUMNS)


def cells_of(record: Any, columns: Iterable[str]) -> list[dict[str, Any]]:
    """Return one record as the cells of a table."""
    row = (
        {str(key): value for key, value in record.items()} if isinstance(record, Mapping) else {VALUE: record}
    )
    return [preview(row.get(column)) for column in columns]


FILTERS = {
    "number": number,
    "counted": counted,
    "duration": duration,
    "timestamp": timestamp,
    "megabytes": megabytes,
    "setting": setting,
    "join_names": join_names,
    "safe_href": safe_href,
    "display_url": display_url,
    "bar_segments": bar_segments,
    "trend_points": trend_points,
    "filled_in": filled_in,
    "preview": preview,
    "error_preview": partial(preview, most=BRIEF_ERROR),
}
