"""The limits of CLOSESPIDER_… that hold for all workers together, by what the run has stored."""

import time
from collections.abc import Mapping
from typing import Any

from scrapy.settings import BaseSettings

from shoal.core.model import Stats

ITEMS, PAGES, ERRORS = "CLOSESPIDER_ITEMCOUNT", "CLOSESPIDER_PAGECOUNT", "CLOSESPIDER_ERRORCOUNT"
SECONDS_NO_ITEM, PAGES_NO_ITEM = "CLOSESPIDER_TIMEOUT_NO_ITEM", "CLOSESPIDER_PAGECOUNT_NO_ITEM"
FLEET_LIMITS = (ITEMS, PAGES, ERRORS, SECONDS_NO_ITEM, PAGES_NO_ITEM)
PAGE_STAT, ERROR_STAT = "response_received_count", "spider_exceptions/count"


class FleetLimits:
    """Tells which limit a run has reached, from one look at its counts after the other."""

    def __init__(self, settings: BaseSettings) -> None:
        self._limits = {name: settings.getint(name) for name in FLEET_LIMITS}
        self._items: int | None = None
        self._since, self._pages = 0.0, 0  # when the last item came, and the pages until then

    def __bool__(self) -> bool:
        return any(self._limits.values())

    @property
    def needs_stats(self) -> bool:
        """Whether it goes by responses or errors of callbacks, which only the statistics of workers have."""
        return bool(self._limits[ERRORS] or self._limits[PAGES])

    def reached(self, counts: Stats, stats: Mapping[str, Any], now: float | None = None) -> str | None:
        """Return the reason to close the spider, as Scrapy words it; None if no limit is reached."""
        now = time.monotonic() if now is None else now
        if counts.items != self._items:
            self._items, self._since, self._pages = counts.items, now, counts.completed
        found = {
            ITEMS: counts.items,
            PAGES: stats.get(PAGE_STAT, 0),
            ERRORS: stats.get(ERROR_STAT, 0),
            SECONDS_NO_ITEM: now - self._since,
            PAGES_NO_ITEM: counts.completed - self._pages,
        }
        over = (name for name, limit in self._limits.items() if limit and found[name] >= limit)
        name = next(over, None)
        return name.lower() if name else None
