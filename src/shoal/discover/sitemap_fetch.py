"""Fetches the files of a walk: one after the other, in peace, and again where that may help."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta

from shoal.core.errors import BrokenAnswer, ConnectFailed, FetchTimeout, HttpStatus
from shoal.core.exchange import Request, Response
from shoal.core.model import MINUTE, SECOND
from shoal.core.verdict import LASTING_5XX, PASSING_4XX, RetryPolicy

Fetch = Callable[[Request], Awaitable[Response]]
Sleep = Callable[[float], Awaitable[object]]

RETRIES = RetryPolicy(max_attempts=3, base=2 * SECOND, cap=MINUTE)
_PASSING = (FetchTimeout, ConnectFailed, BrokenAnswer)


class Getter:
    """Gets files, with at least `delay` between two requests."""

    def __init__(self, fetch: Fetch, *, delay: timedelta, timeout: timedelta, sleep: Sleep) -> None:
        self._fetch, self._timeout, self._sleep = fetch, timeout, sleep
        self._delay = delay.total_seconds()
        self._free_at = 0.0

    async def get(self, url: str) -> Response:
        """Return a file that came with a good status; raises FetchError."""
        for attempt in range(1, RETRIES.max_attempts):
            try:
                return await self._once(url)
            except (HttpStatus, *_PASSING) as error:
                if isinstance(error, HttpStatus) and not _passes(error.status):
                    raise
            await self._sleep(RETRIES.backoff(attempt, random.random()).total_seconds())
        return await self._once(url)

    async def _once(self, url: str) -> Response:
        clock = asyncio.get_running_loop().time
        if (wait := self._free_at - clock()) > 0:
            await self._sleep(wait)
        self._free_at = clock() + self._delay
        response = await self._fetch(Request(url=url, timeout=self._timeout))
        if not 200 <= response.status <= 299:
            raise HttpStatus(response.status, message=f"status {response.status}")
        return response


def _passes(status: int) -> bool:
    return status in PASSING_4XX or (500 <= status <= 599 and status not in LASTING_5XX)
