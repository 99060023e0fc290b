"""A fetcher that sends API tokens, and stays within their rate limits."""

import logging
import re
from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from urllib.parse import quote

from msgspec import structs

from shoal.core.errors import FetchError, NotNow, OutOfScope, TokensResting
from shoal.core.http import Headers, Request, Response
from shoal.core.model import ZERO
from shoal.core.redact import HIDDEN
from shoal.core.secrets import current_secrets
from shoal.core.urls import canonical, host_of, origin_of
from shoal.fetch.contract import Fetcher
from shoal.fetch.shared_state import HostPauser, SharedState
from shoal.fetch.singleflight import LruCache
from shoal.fetch.tokens.pool import Permit, TokenPool
from shoal.fetch.tokens.rate_limit_headers import RateLimit, rate_limit_in
from shoal.fetch.tokens.token import TokenPlacement, key_of

log = logging.getLogger(__name__)

MAX_REQUEUES = 3  # requeues of a page that rejects tokens, plus one per token; then the page is at fault
MAX_PAGES = 10_000  # whose requeues are counted
SEARCHED_BYTES = 2_000  # bytes of a response that are searched for a reason
_REFUSED = re.compile(
    rb"(?i)bad credentials|invalid_token"
    rb"|(?:invalid|revoked|expired|unknown)[ _-](?:api[ _-]?key|access[ _-]?token|token)"
    rb"|(?:api[ _-]?key|token)(?: is| was| has been| has)? (?:invalid|revoked|expired|unknown)"
)


class TokenFetcher:
    """Sends a token to its origins, and fetches everything else without."""

    def __init__(
        self, fetcher: Fetcher, pool: TokenPool, placement: TokenPlacement, *, queue: SharedState
    ) -> None:
        self._fetcher, self._pool, self._placement = fetcher, pool, placement
        self._pauser = HostPauser(queue)
        self._requeues: LruCache[int] = LruCache(MAX_PAGES)
        self._warned: set[str] = set()

    async def fetch(self, request: Request) -> Response:
        """Return the response; raises NotNow if the token, not the page, is why there is none."""
        url = canonical(request.url)
        if not self._placement.covers(url):
            self._warn_of_similar(url)
            return await self._fetcher.fetch(request)
        shared = self._pool.shared
        shared.hold = max(shared.hold, request.timeout.total_seconds() + 10)
        try:
            permit = await self._pool.acquire()
        except NotNow as wait:
            await self._pauser.pause(host_of(url), wait.after)
            raise
        return await self._send(replace(request, url=url), permit)

    async def close(self) -> None:
        """Return unused reservations, and close every connection."""
        await self._pool.close()
        await self._fetcher.close()

    def _warn_of_similar(self, url: str) -> None:
        """Warn once of a host that gets no token only because of its scheme or port."""
        origin = origin_of(url)
        similar = self._placement.similar(origin)
        if similar is None or similar in self._warned:
            return
        self._warned.add(similar)
        log.warning(
            "Requests to %s are sent without a token: tokens go to %s only. "
            "To send them there too, write in full: hosts=%s",
            *(origin, similar, f"{similar},{origin}"),
        )

    async def _send(self, request: Request, permit: Permit) -> Response:
        if secrets := current_secrets():
            secrets.add(permit.token.text)  # which may be only in the URL
        token_request = _TokenRequest(request, permit, self._pool, self._placement)
        try:
            response = await self._fetcher.fetch(token_request.request())
        except NotNow:
            self._pool.give_back(token_request.permit)
            raise
        except BaseException as error:
            await self._pool.finish(token_request.permit)
            if isinstance(error, FetchError) and (clean := _without_secret(permit.token.text, error)):
                raise clean from None
            raise
        return await self._check_response(token_request, response)

    async def _check_response(self, token_request: "_TokenRequest", response: Response) -> Response:
        """Report the rate limit in a response to the pool; return it, unless another token may do better."""
        permit, remove_token = (
            token_request.permit,
            self._remove_token(response, token_request.permit.token.text),
        )
        if not token_request.stayed(response):
            await self._pool.finish(permit)
            return remove_token
        rate_limit = rate_limit_in(response)
        if _is_exhausted(response, rate_limit):
            await self._pool.pause(permit, rate_limit)
            return self._requeue(token_request, remove_token, f"{permit.token.name} is exhausted")
        if _is_refused(response):
            page = key_of(token_request.url, b"page")
            await self._pool.record_rejection(
                permit, page, f"status {response.status} from two pages in a row"
            )
            return self._requeue(token_request, remove_token, f"{permit.token.name} was rejected")
        await self._pool.finish(permit, rate_limit if response.status < 500 else None)
        return remove_token

    def _requeue(self, token_request: "_TokenRequest", response: Response, why: str) -> Response:
        times = (self._requeues.get(token_request.url) or 0) + 1
        self._requeues.put(token_request.url, times)
        if times > MAX_REQUEUES + len(self._pool.tokens):
            return response
        raise TokensResting(f"{why}; another is tried", ZERO)

    def _remove_token(self, response: Response, secret: str) -> Response:
        """Return a response without the token that was in its URL, wherever the host repeats it."""
        remove_token = self._placement.remove_token
        if self._placement.query is None:
            return response
        hops = [
            structs.replace(hop, url=remove_token(hop.url), headers=_hide(hop.headers, secret))
            for hop in response.hops
        ]
        return replace(
            response,
            url=remove_token(response.url),
            headers=_hide(response.headers, secret),
            redirects=tuple(map(remove_token, response.redirects)),
            hops=tuple(hops),
        )


class _TokenRequest:
    """One fetch with a token, including its redirects."""

    def __init__(self, request: Request, permit: Permit, pool: TokenPool, placement: TokenPlacement) -> None:
        self._request, self._pool, self._placement = request, pool, placement
        self.permit, self.url, self._origin = permit, request.url, origin_of(request.url)
        self._is_away = False

    def request(self) -> Request:
        """Return the request with the token in it."""
        url, headers = self._placement.add_token(self.url, self._request.headers, self.permit.token)
        return replace(self._request, url=url, headers=headers, on_hop=self._hop)

    def stayed(self, response: Response) -> bool:
        """Tell whether every response on the way was to this token."""
        lost = self._placement.query is not None and response.hops
        return not (self._is_away or lost) and origin_of(response.url) == self._origin

    async def _hop(self, url: str) -> None:
        """Handle a redirect: within the origin it is one more request with the token."""
        if origin_of(url) != self._origin:
            self._is_away = True
            if self.permit.token.text in url or self._placement.remove_token(url) != url:
                raise OutOfScope("The host redirects to another host with the token in the URL")
        elif not self._is_away:
            await self._take_permit()
        if self._request.on_hop:
            await self._request.on_hop(self._placement.remove_token(url))

    async def _take_permit(self) -> None:
        further = self._pool.take_another(self.permit)
        if further is None:
            raise TokensResting(f"{self.permit.token.name} has no request left for a redirect", ZERO)
        await self._pool.finish(self.permit)
        self.permit = further


def _is_exhausted(response: Response, rate_limit: RateLimit) -> bool:
    return response.status == 429 or (
        response.status == 403
        and (rate_limit.left == 0 or (rate_limit.retry_after is not None and rate_limit.retry_after > ZERO))
    )


def _is_refused(response: Response) -> bool:
    if response.status == 401:
        return True
    text = response.headers.get("www-authenticate", "").encode() + response.body[:SEARCHED_BYTES]
    return response.status == 403 and bool(_REFUSED.search(text))


def _hide(headers: Headers, secret: str) -> Headers:
    spellings = {secret, quote(secret, safe="")}
    if not any(text in value for _, value in headers.fields for text in spellings):
        return headers
    return Headers((name, _redact(value, spellings)) for name, value in headers.fields)


def _redact(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text


def _without_secret(secret: str, error: FetchError) -> FetchError | None:
    """Return an error without a secret in its text; None if it contains none."""
    spellings = {secret, quote(secret, safe="")}
    if not any(text in str(error) for text in spellings):
        return None
    clean = copy(error)
    clean.args = (_redact(str(error), spellings),)
    return clean
