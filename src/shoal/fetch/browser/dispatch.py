"""Sends requests with the browser, and releases its pages."""

from dataclasses import replace

from shoal.core.http import LiveTab, Request, Response
from shoal.fetch.contract import Fetcher


class RenderingFetcher:
    """Requests that every page is rendered; the outermost fetcher.

    Fetchers between may discard a response or send twice: every page that is not returned is released here.
    It closes nothing, since it does not own the fetcher that it wraps.
    """

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher

    async def fetch(self, request: Request) -> Response:
        """Return the response with its live page; raises as the fetcher does."""
        opened: list[LiveTab] = []
        live_page: LiveTab | None = None
        try:
            response = await self._fetcher.fetch(replace(request, render=opened.append))
            live_page = response.live
            return response
        finally:
            for live in opened:
                if live is not live_page:
                    live.release()

    async def close(self) -> None:
        """Close nothing."""
