"""Which responses are pages, and what the others mean."""

import re
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from re import Pattern

from shoal.core.errors import Blocked, HttpStatus
from shoal.core.http import Response
from shoal.core.model import ZERO

BLOCKING = frozenset({403, 429, 503})
SEARCHED_BYTES = 64 << 10  # bytes of a body that a block pattern is searched in
MAX_WAIT = timedelta(days=7)


def accepted(
    response: Response, *, also: Collection[int] = (), block: Pattern[str] | None = None
) -> Response:
    """Return a page unchanged; raises Blocked or HttpStatus for a response that is not a page.

    A page has a status of 2xx or one of `also`.
    """
    status = response.status
    is_page = 200 <= status <= 299 or status in also
    if is_block(response, also=also, block=block):
        message = "The host responded with a block page" if is_page else None
        raise Blocked(status, retry_after=retry_after(response), message=message)
    if is_page:
        return response
    raise HttpStatus(status, retry_after=retry_after(response))


def is_block(response: Response, *, also: Collection[int] = (), block: Pattern[str] | None = None) -> bool:
    """Tell whether the host has blocked the request: by its status, or with a block page."""
    if block and block.search(response.body[:SEARCHED_BYTES].decode(errors="replace")):
        return True
    return response.status in BLOCKING and response.status not in also


def retry_after(response: Response, now: datetime | None = None) -> timedelta | None:
    """Return the Retry-After of a response; None if it has none."""
    value = response.headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}(\.\d*)?", value, re.ASCII):
        return min(timedelta(seconds=float(value)), MAX_WAIT)
    until = parse_date(value)
    if until is None:
        return None
    # Relative to the host's own clock where it sends one, since that may be wrong by hours.
    start = parse_date(response.headers.get("date", "")) or now or datetime.now(UTC)
    return min(max(until - start, ZERO), MAX_WAIT)


def parse_date(text: str) -> datetime | None:
    """Parse an HTTP date; None if it is invalid."""
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError, IndexError, TypeError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
