"""Who decides, above all that is around a fetcher, whether it is the browser that asks."""

from dataclasses import replace

from shoal.core.exchange import Live, Request, Response
from shoal.fetch.contract import Fetcher


class EitherFetcher:
    """Asks with the browser where a request is to be rendered, else by HTTP; innermost of all."""

    def __init__(self, http: Fetcher, browser: Fetcher) -> None:
        self._http, self._browser = http, browser

    async def fetch(self, request: Request) -> Response:
        """Return the answer, whatever its status; raises as the one that is asked."""
        return await (self._browser if request.render else self._http).fetch(request)

    async def close(self) -> None:
        """Close both."""
        await self._browser.close()
        await self._http.close()


class RenderingFetcher:
    """Wants every page rendered; outermost of all.

    Those between may turn an answer down or ask twice: every page that nobody gets is let go here. It closes
    nothing, for what it wraps is another's.
    """

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher

    async def fetch(self, request: Request) -> Response:
        """Return the answer with its live page; raises as the fetcher does."""
        opened: list[Live] = []
        kept: Live | None = None
        try:
            response = await self._fetcher.fetch(replace(request, render=opened.append))
            kept = response.live
            return response
        finally:
            for live in opened:
                if live is not kept:
                    live.let_go()

    async def close(self) -> None:
        """Close nothing."""
