"""Fetch sitemap files: one at a time, with a delay, and with retries for temporary errors."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta

from shoal.core.errors import BrokenAnswer, ConnectFailed, FetchTimeout, HttpStatus
from shoal.core.http import Request, Response
from shoal.core.model import MINUTE, SECOND
from shoal.core.verdict import RetryPolicy, is_transient
from shoal.discover.source import Fetch

Sleep = Callable[[float], Awaitable[object]]

RETRIES = RetryPolicy(max_attempts=3, base=2 * SECOND, cap=MINUTE)
_TEMPORARY = (FetchTimeout, ConnectFailed, BrokenAnswer)


class SitemapFetcher:
    """Fetches files with at least `delay` between two requests."""

    def __init__(self, fetch: Fetch, *, delay: timedelta, timeout: timedelta, sleep: Sleep) -> None:
        self._fetch, self._timeout, self._sleep = fetch, timeout, sleep
        self._delay = delay.total_seconds()
        self._free_at = 0.0

    async def get(self, url: str) -> Response:
        """Return the response if its status is 2xx; raises FetchError."""
        for attempt in range(1, RETRIES.max_attempts):
            try:
                return await self._get_once(url)
            except (HttpStatus, *_TEMPORARY) as error:
                if isinstance(error, HttpStatus) and not is_transient(error.status):
                    raise
            await self._sleep(RETRIES.backoff(attempt, random.random()).total_seconds())
        return await self._get_once(url)

    async def _get_once(self, url: str) -> Response:
        clock = asyncio.get_running_loop().time
        if (wait := self._free_at - clock()) > 0:
            await self._sleep(wait)
        self._free_at = clock() + self._delay
        response = await self._fetch(Request(url=url, timeout=self._timeout))
        if not 200 <= response.status <= 299:
            raise HttpStatus(response.status, message=f"status {response.status}")
        return response
