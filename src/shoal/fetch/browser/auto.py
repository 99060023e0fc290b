"""By HTTP where that is enough, with a browser where it is not: learned for each kind of page of a site."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from shoal.core.errors import NeedsBrowser
from shoal.core.exchange import Request, Response
from shoal.fetch.browser.sites import Sites, shape
from shoal.fetch.contract import Fetcher


class AutoFetcher:
    """Asks by HTTP first, unless it is known that this will not do.

    `gap` is what lies between two questions to a host. A page that turns out to need a browser goes back to
    the queue for so long, and is then asked for with one; where it may not go back (`Request.once`), the
    second question waits here. It closes nothing, for what it wraps is another's.
    """

    def __init__(
        self,
        http: Fetcher,
        browser: Fetcher,
        sites: Sites,
        needs_browser: Callable[[Response], bool],
        *,
        gap: timedelta,
    ) -> None:
        self._http, self._browser, self._sites = http, browser, sites
        self._needs_browser, self._gap = needs_browser, gap

    async def fetch(self, request: Request) -> Response:
        """Return the answer of whichever will do; raises as they do, and NeedsBrowser."""
        kind, may_render = shape(request.url), request.post is None
        if may_render and await self._sites.need_browser(kind):
            return await self._browser.fetch(request)
        if request.on_ask:
            request.on_ask()
        response = await self._http.fetch(replace(request, on_ask=None))
        is_page = may_render and 200 <= response.status <= 299
        if not is_page or not self._needs_browser(response):
            return response
        await self._sites.learn(kind)
        if self._gap and not request.once:
            raise NeedsBrowser(f"{kind} is written by scripts, and is asked for with a browser", self._gap)
        await asyncio.sleep(self._gap.total_seconds())
        return await self._browser.fetch(replace(request, on_ask=None))

    async def close(self) -> None:
        """Close nothing."""
