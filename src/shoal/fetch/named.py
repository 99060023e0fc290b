"""Fetchers that steps choose by name: which one sends a request, and the checks around a plugin's."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from shoal.core.errors import BrokenAnswer, ConnectFailed, FetchTimeout, NotNow, TlsFailed, TooLarge
from shoal.core.http import Request, Response
from shoal.fetch.contract import Fetcher, Limits
from shoal.fetch.egress import Egress

BROWSER = "browser"


class ChoosingFetcher:
    """Uses the fetcher that a request names, the browser where it is to be rendered, else HTTP.

    It is the innermost fetcher.
    """

    def __init__(self, http: Fetcher, others: Mapping[str, Fetcher]) -> None:
        self._http, self._others = http, others

    async def fetch(self, request: Request) -> Response:
        """Return the response, whatever its status; raises as the chosen fetcher does."""
        name = BROWSER if request.render else request.fetcher
        return await (self._others[name] if name else self._http).fetch(request)

    async def close(self) -> None:
        """Close all."""
        for fetcher in (*self._others.values(), self._http):
            await fetcher.close()


class SentFetcher:
    """Calls `on_sent` of a request when it may have been sent; wraps the innermost fetcher."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher

    async def fetch(self, request: Request) -> Response:
        """Return the response; raises as the fetcher does."""
        on_sent = request.on_sent
        if on_sent is None:
            return await self._fetcher.fetch(request)

        async def on_hop(url: str) -> None:
            on_sent()
            if request.on_hop:
                await request.on_hop(url)

        try:
            response = await self._fetcher.fetch(replace(request, on_hop=on_hop))
        except BaseException as error:
            if isinstance(error, TlsFailed) or not isinstance(error, NotNow | ConnectFailed):
                on_sent()
            raise
        on_sent()
        return response

    async def close(self) -> None:
        """Close the fetcher."""
        await self._fetcher.close()


class NamingFetcher:
    """Names the plugin that sends each request; the outermost fetcher, which owns nothing."""

    def __init__(self, fetcher: Fetcher, name: str) -> None:
        self._fetcher, self._name = fetcher, name

    async def fetch(self, request: Request) -> Response:
        """Return the response; raises as the fetcher does."""
        return await self._fetcher.fetch(replace(request, fetcher=self._name))

    async def close(self) -> None:
        """Close nothing."""


class GuardedFetcher:
    """A plugin's fetcher, within the timeout and the limits of every fetch.

    The URL, and the final one if the plugin has not announced it as a hop, must be admitted and in scope.
    """

    def __init__(self, name: str, fetcher: Fetcher, *, limits: Limits, egress: Egress) -> None:
        self._name, self._fetcher, self._limits, self._egress = name, fetcher, limits, egress

    async def fetch(self, request: Request) -> Response:
        """Return the response, whatever its status; raises FetchError."""
        await self._egress.admit_request(request.url, request.proxy)
        known = {request.url}

        async def on_hop(url: str) -> None:
            await self._egress.admit_request(url, request.proxy)
            if request.on_hop:
                await request.on_hop(url)
            known.add(url)

        response = await self._fetch_in_time(replace(request, on_hop=on_hop))
        if response.url not in known:
            await on_hop(response.url)
        if len(response.body) > self._limits.max_body:
            raise TooLarge(f"The page has more than {self._limits.max_body:,} bytes")
        if request.on_bytes:
            await request.on_bytes(len(response.body))
        return response

    async def close(self) -> None:
        """Close the plugin's fetcher."""
        await self._fetcher.close()

    async def _fetch_in_time(self, request: Request) -> Response:
        try:
            async with asyncio.timeout(request.timeout.total_seconds()):
                response = await self._fetcher.fetch(request)
        except TimeoutError as error:
            seconds = request.timeout.total_seconds()
            raise FetchTimeout(f"The fetcher {self._name!r} took longer than {seconds:g} seconds") from error
        except SystemExit as error:
            raise BrokenAnswer(f"The fetcher {self._name!r} called sys.exit()") from error
        if not isinstance(response, Response):
            raise BrokenAnswer(f"The fetcher {self._name!r} returned {type(response).__name__}, no Response")
        return response
