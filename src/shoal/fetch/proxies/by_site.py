"""A fetcher that sends the requests to some sites through proxies of their own, or directly."""

from collections.abc import Callable, Sequence
from typing import Literal

from shoal.core.http import Request, Response
from shoal.core.proxies import ProxyRules
from shoal.fetch.contract import Fetcher

SiteProxies = ProxyRules | Literal[False] | None  # False: a direct connection, None: as for all sites


class SiteProxiesFetcher:
    """Chooses the proxies of a request by the site of its URL; redirects stay with them."""

    def __init__(
        self,
        direct: Fetcher,
        usual: Fetcher,
        by_rules: Sequence[tuple[ProxyRules, Fetcher]],
        find: Callable[[str], SiteProxies],
    ) -> None:
        self._direct, self._usual, self._find = direct, usual, find
        self._by_rules = by_rules

    async def fetch(self, request: Request) -> Response:
        """Return the response, whatever its status; raises FetchError, ProxyTrouble or NoProxyLeft."""
        return await self._choose(self._find(request.url)).fetch(request)

    async def close(self) -> None:
        """Close every connection."""
        for fetcher in (*(fetcher for _, fetcher in self._by_rules), self._usual):
            await fetcher.close()

    def _choose(self, rules: SiteProxies) -> Fetcher:
        if rules is None:
            return self._usual
        return next((fetcher for own, fetcher in self._by_rules if own == rules), self._direct)
