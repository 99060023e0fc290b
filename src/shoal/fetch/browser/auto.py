"""HTTP where that is enough, a browser where it is not: learned for each kind of page of a site."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from shoal.core.errors import NeedsBrowser
from shoal.core.http import Request, Response
from shoal.fetch.browser.render_hints import RenderHints, shape
from shoal.fetch.contract import Fetcher


class AutoFetcher:
    """Fetches by HTTP first, unless the page is known to need a browser.

    `gap` is the delay between two requests to a host. A page that turns out to need a browser is postponed by
    that delay, and then fetched with one; where it may not be postponed (`Request.once`), the second request
    waits here. It closes nothing, since it does not own the fetchers that it wraps.
    """

    def __init__(
        self,
        http: Fetcher,
        browser: Fetcher,
        sites: RenderHints,
        needs_browser: Callable[[Response], bool],
        *,
        gap: timedelta,
    ) -> None:
        self._http, self._browser, self._sites = http, browser, sites
        self._needs_browser, self._gap = needs_browser, gap

    async def fetch(self, request: Request) -> Response:
        """Return the response of the fetcher that fits; raises as they do, and NeedsBrowser."""
        kind, may_render = shape(request.url), request.post is None
        if may_render and await self._sites.need_browser(kind):
            return await self._browser.fetch(request)
        if request.on_send:
            request.on_send()
        response = await self._http.fetch(replace(request, on_send=None))
        is_page = may_render and 200 <= response.status <= 299
        if not is_page or not self._needs_browser(response):
            return response
        await self._sites.learn(kind)
        if self._gap and not request.once:
            raise NeedsBrowser(f"{kind} is built by scripts, and is fetched with a browser", self._gap)
        await asyncio.sleep(self._gap.total_seconds())
        return await self._browser.fetch(replace(request, on_send=None))

    async def close(self) -> None:
        """Close nothing."""
