"""A fetcher that sends tokens along, and never more often than their host allows."""

import re
from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from urllib.parse import quote

from shoal.core.errors import FetchError, NotNow, OutOfScope, TokenSetAside, TokensResting
from shoal.core.exchange import Headers, Request, Response
from shoal.core.model import ZERO
from shoal.core.redact import HIDDEN
from shoal.core.secrets import current_secrets
from shoal.core.urls import canonical, host_of
from shoal.fetch.contract import Fetcher
from shoal.fetch.shared import Shelf
from shoal.fetch.sparing import HostPauses, Sparing
from shoal.fetch.tokens.pool import Draw, TokenPool
from shoal.fetch.tokens.token import Placement, key_of, origin_of
from shoal.fetch.tokens.told import Told, told_by

MOST_RETURNS = 3  # beyond one for each token, of a page that blames them; then the page is blamed
MOST_PAGES = 10_000  # that are remembered for it
LOOKED_AT = 2_000  # bytes of an answer in which a reason is looked for
_REFUSED = re.compile(
    rb"(?i)bad credentials|invalid_token"
    rb"|(?:invalid|revoked|expired|unknown)[ _-](?:api[ _-]?key|access[ _-]?token|token)"
    rb"|(?:api[ _-]?key|token)(?: is| was| has been| has)? (?:invalid|revoked|expired|unknown)"
)


class TokenFetcher:
    """Fetches with a token what is for its origins, and everything else without."""

    def __init__(self, fetcher: Fetcher, pool: TokenPool, placement: Placement, *, queue: HostPauses) -> None:
        self._fetcher, self._pool, self._placement = fetcher, pool, placement
        self._sparing = Sparing(queue)
        self._returned: Shelf[int] = Shelf(MOST_PAGES)

    async def fetch(self, request: Request) -> Response:
        """Return the answer; raises NotNow when a token, and not the page, is why there is none."""
        url = canonical(request.url)
        if not self._placement.admits(url):
            return await self._fetcher.fetch(request)
        desk = self._pool.desk
        desk.hold = max(desk.hold, request.timeout.total_seconds() + 10)
        try:
            draw = await self._pool.draw()
        except NotNow as wait:
            await self._sparing.spare(host_of(url), wait.after)
            raise
        return await self._sent(replace(request, url=url), draw)

    async def close(self) -> None:
        """Hand back what was reserved, and let go of every connection."""
        await self._pool.close()
        await self._fetcher.close()

    async def _sent(self, request: Request, draw: Draw) -> Response:
        if secrets := current_secrets():
            secrets.add(draw.token.text)  # which may stand in the URL alone
        trip = _Trip(request, draw, self._pool, self._placement)
        try:
            response = await self._fetcher.fetch(trip.request())
        except NotNow:
            self._pool.unsent(trip.draw)
            raise
        except BaseException as error:
            await self._pool.over(trip.draw)
            if isinstance(error, FetchError) and (clean := _without(draw.token.text, error)):
                raise clean from None
            raise
        return await self._judged(trip, response)

    async def _judged(self, trip: "_Trip", response: Response) -> Response:
        """Tell the pool what an answer says of the token; return it, unless another token may do better."""
        draw, bare = trip.draw, self._bare(response, trip.draw.token.text)
        if not trip.stayed(response):
            await self._pool.over(draw)
            return bare
        told = told_by(response)
        if _is_exhausted(response, told):
            await self._pool.rest(draw, told)
            return self._set_aside(trip, bare, f"{draw.token.name} is exhausted")
        if _is_refused(response):
            page = key_of(trip.url, b"page")
            await self._pool.doubt(draw, page, f"status {response.status} from two pages in a row")
            return self._set_aside(trip, bare, f"{draw.token.name} was refused")
        await self._pool.over(draw, told if response.status < 500 else None)
        return bare

    def _set_aside(self, trip: "_Trip", response: Response, why: str) -> Response:
        times = (self._returned.get(trip.url) or 0) + 1
        self._returned.put(trip.url, times)
        if times > MOST_RETURNS + len(self._pool.tokens):
            return response
        raise TokenSetAside(f"{why}; another is tried", ZERO)

    def _bare(self, response: Response, secret: str) -> Response:
        """Return an answer without the token that was in its URL, wherever the host repeats it."""
        bare = self._placement.bare
        if self._placement.query is None:
            return response
        hops = [
            replace(hop, url=bare(hop.url), headers=_hidden(hop.headers, secret)) for hop in response.hops
        ]
        return replace(
            response,
            url=bare(response.url),
            headers=_hidden(response.headers, secret),
            redirects=tuple(map(bare, response.redirects)),
            hops=tuple(hops),
        )


class _Trip:
    """One fetch with a token, from its URL to where redirects lead."""

    def __init__(self, request: Request, draw: Draw, pool: TokenPool, placement: Placement) -> None:
        self._request, self._pool, self._placement = request, pool, placement
        self.draw, self.url, self._origin = draw, request.url, origin_of(request.url)
        self._is_away = False

    def request(self) -> Request:
        """Return the request with the token in it."""
        url, headers = self._placement.dressed(self.url, self._request.headers, self.draw.token)
        return replace(self._request, url=url, headers=headers, on_hop=self._hop)

    def stayed(self, response: Response) -> bool:
        """Tell whether the answer is one to this token, all the way."""
        lost = self._placement.query is not None and response.hops
        return not (self._is_away or lost) and origin_of(response.url) == self._origin

    async def _hop(self, url: str) -> None:
        """Let a redirect go on: within the origin it is one more request with the token."""
        if origin_of(url) != self._origin:
            self._is_away = True
            if self.draw.token.text in url or self._placement.bare(url) != url:
                raise OutOfScope("The host redirects to another one with the token in the URL")
        elif not self._is_away:
            await self._pay()
        if self._request.on_hop:
            await self._request.on_hop(self._placement.bare(url))

    async def _pay(self) -> None:
        further = self._pool.another(self.draw)
        if further is None:
            raise TokensResting(f"{self.draw.token.name} has no request left for a redirect", ZERO)
        await self._pool.over(self.draw)
        self.draw = further


def _is_exhausted(response: Response, told: Told) -> bool:
    return response.status == 429 or (
        response.status == 403 and (told.left == 0 or (told.rest is not None and told.rest > ZERO))
    )


def _is_refused(response: Response) -> bool:
    if response.status == 401:
        return True
    said = response.headers.get("www-authenticate", "").encode() + response.body[:LOOKED_AT]
    return response.status == 403 and bool(_REFUSED.search(said))


def _hidden(headers: Headers, secret: str) -> Headers:
    spellings = {secret, quote(secret, safe="")}
    if not any(text in value for _, value in headers.fields for text in spellings):
        return headers
    return Headers((name, _struck(value, spellings)) for name, value in headers.fields)


def _struck(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text


def _without(secret: str, error: FetchError) -> FetchError | None:
    """Return an error without a secret in its text; None if it has none."""
    spellings = {secret, quote(secret, safe="")}
    if not any(text in str(error) for text in spellings):
        return None
    clean = copy(error)
    clean.args = (_struck(str(error), spellings),)
    return clean
