"""A fetcher for those who have no queue to put a request back into."""

import asyncio

from shoal.core.errors import ConnectFailed, NoProxyLeft, NotNow
from shoal.core.exchange import Request, Response
from shoal.fetch.contract import Fetcher

TRIES = 5
LONGEST = 2.0  # seconds between two


class PatientFetcher:
    """Tries again a few times what cannot be tried at the moment."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher

    async def fetch(self, request: Request) -> Response:
        """Return the answer, whatever its status; raises FetchError."""
        for left in reversed(range(TRIES)):
            try:
                return await self._fetcher.fetch(request)
            except NotNow as reason:
                if not left or isinstance(reason, NoProxyLeft):
                    raise ConnectFailed(str(reason)) from None
                await asyncio.sleep(min(reason.after.total_seconds(), LONGEST))
        raise AssertionError("the last try returns or raises")

    async def close(self) -> None:
        """Let go of every connection."""
        await self._fetcher.close()
