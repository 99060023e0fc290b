"""A fetcher for callers that have no queue to postpone a request in."""

import asyncio

from shoal.core.errors import ConnectFailed, NoProxyLeft, NotNow
from shoal.core.http import Request, Response
from shoal.fetch.contract import Fetcher

ATTEMPTS = 5
MAX_WAIT = 2.0  # seconds between two


class RetryingFetcher:
    """Retries a few times what cannot be fetched at the moment."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher

    async def fetch(self, request: Request) -> Response:
        """Return the response, whatever its status; raises FetchError."""
        for left in reversed(range(ATTEMPTS)):
            try:
                return await self._fetcher.fetch(request)
            except NotNow as reason:
                if not left or isinstance(reason, NoProxyLeft):
                    raise ConnectFailed(str(reason)) from None
                await asyncio.sleep(min(reason.after.total_seconds(), MAX_WAIT))
        raise AssertionError("the last try returns or raises")

    async def close(self) -> None:
        """Close every connection."""
        await self._fetcher.close()
