"""Which answers are pages, and what the others mean."""

import re
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from re import Pattern

from shoal.core.errors import Blocked, HttpStatus
from shoal.core.exchange import Response
from shoal.core.model import ZERO

BLOCKING = frozenset({403, 429, 503})
LOOKED_AT = 64 << 10  # bytes of a body that a block pattern is searched in
LONGEST_WAIT = timedelta(days=7)


def accepted(
    response: Response,
    *,
    also: Collection[int] = (),
    block: Pattern[str] | None = None,
    now: datetime | None = None,
) -> Response:
    """Return a page as it is; raises Blocked or HttpStatus for an answer that is none.

    A page has a status of 2xx or one of `also`. A wait that is asked for as a date counts from `now` when the
    answer has no date of its own.
    """
    status = response.status
    if 200 <= status <= 299 or status in also:
        if block and status == 200 and block.search(response.body[:LOOKED_AT].decode(errors="replace")):
            raise Blocked(status, message="The host answered with a block page")
        return response
    kind = Blocked if status in BLOCKING else HttpStatus
    raise kind(status, retry_after=retry_after(response, now))


def retry_after(response: Response, now: datetime | None = None) -> timedelta | None:
    """Return how long the host asks to be left alone; None if it does not say so."""
    asked = response.headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}(\.\d*)?", asked, re.ASCII):
        return min(timedelta(seconds=float(asked)), LONGEST_WAIT)
    until = _moment(asked)
    if until is None:
        return None
    # Counted by the host's own clock where it tells the time, for it may be wrong by hours.
    start = _moment(response.headers.get("date", "")) or now or datetime.now(UTC)
    return min(max(until - start, ZERO), LONGEST_WAIT)


def _moment(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
