"""A message about a run, host or schedule, and what sends it."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

SEND_TIMEOUT = timedelta(seconds=10)
FROM_ENVIRONMENT = "env:"  # before the name of a variable that holds a secret of a channel


class Notification(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message; `id` is the same however often and by whichever process it is sent."""

    id: str
    event: str  # one of KINDS, or test
    state: str  # open, over, or once for what has no end
    title: str
    at: datetime  # by the store's clock
    text: str = ""
    scraper: str | None = None
    run_id: str | None = None
    schedule: str | None = None
    host: str | None = None


Send = Callable[[Notification], Awaitable[object]]
OpenNotifier = Callable[[Mapping[str, Any]], Send]
