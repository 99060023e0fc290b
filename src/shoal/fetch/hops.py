"""A fetch from end to end: hop by hop through the door, under one deadline, with any engine."""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from time import perf_counter
from typing import Protocol

from shoal.core.ask import SENT_ON
from shoal.core.errors import ConnectFailed, FetchTimeout, InvalidSetting, InvalidUrl, OutOfScope, shorten
from shoal.core.exchange import Cookies, Guise, Headers, Hop, OnBytes, Request, Response, Way
from shoal.core.model import NOTHING
from shoal.core.secrets import current_secrets
from shoal.core.urls import join
from shoal.fetch.cookies import CookieJar
from shoal.fetch.deadlines import Deadlines
from shoal.fetch.egress import Egress, Target
from shoal.fetch.limits import Limits

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
CONNECT_TIMEOUT = timedelta(seconds=15)
IDLE_TIMEOUT = timedelta(seconds=30)  # how long a connection is kept for the next request
REDIRECTS = frozenset({301, 302, 303, 307, 308})
# What a caller's header may say to any host; all others are for the origin of the first URL alone.
HARMLESS = frozenset({"accept", "accept-language", "user-agent"})
NOT_THE_CALLERS = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "host",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Answer(Protocol):
    """The head of an answer; its body is still on the wire."""

    status: int

    def first(self, name: str) -> str | None:
        """Return the first value under a name in lower case."""
        ...

    def all(self, name: str) -> Sequence[str]:
        """Return every value under a name in lower case."""
        ...

    def headers(self) -> Headers:
        """Return all fields."""
        ...

    async def body(self, most: int, on_bytes: OnBytes | None) -> bytes:
        """Return the decompressed body; raises TooLarge when it has more than `most` bytes."""
        ...

    def drop(self) -> None:
        """Let go of the body unread."""
        ...


class Engine(Protocol):
    """Sends one request and follows nothing."""

    async def send(
        self,
        target: Target,
        headers: Mapping[str, str],
        way: Way | None,
        guise: Guise | None,
        post: bytes | None = None,
    ) -> Answer:
        """Ask one of the target's addresses, or by this way; raises FetchError. With `post` it is a POST."""
        ...

    async def close(self) -> None:
        """Let go of every connection."""
        ...


class HopFetcher:
    """Walks from hop to hop with one engine; redirects, cookies and credentials are its business."""

    def __init__(self, engine: Engine, egress: Egress, limits: Limits) -> None:
        self._engine, self._egress, self._limits = engine, egress, limits
        self._jar, self._deadlines = CookieJar(), Deadlines()
        self._closed = False

    async def fetch(self, request: Request) -> Response:
        """Return the answer, whatever its status; raises FetchError, or what `on_hop` raises."""
        if self._closed:
            raise ConnectFailed("This fetcher has been closed")
        started = perf_counter()
        try:
            with self._deadlines.within(request.timeout):
                return await self._walk(request, started)
        except TimeoutError as exc:
            raise FetchTimeout(f"No whole answer within {request.timeout.total_seconds():g} s") from exc

    async def close(self) -> None:
        """Let go of every connection; a fetch that is under way may fail."""
        self._closed = True
        await self._engine.close()

    async def _walk(self, request: Request, started: float) -> Response:
        headers = callers_headers(request.headers) if request.headers else NOTHING
        target = await self._admit(request, request.url)
        answer = await self._ask(request, target, headers, request.post)
        hops: tuple[Hop, ...] = ()
        if answer.status in REDIRECTS:
            target, answer, hops = await self._follow(request, target, answer, headers)
        return Response(
            url=target.url,
            status=answer.status,
            headers=answer.headers(),
            body=await answer.body(self._limits.max_body, request.on_bytes),
            redirects=tuple(hop.url for hop in hops),
            elapsed=timedelta(seconds=perf_counter() - started),
            hops=hops,
        )

    async def _follow(
        self, request: Request, target: Target, answer: Answer, headers: Mapping[str, str]
    ) -> tuple[Target, Answer, tuple[Hop, ...]]:
        """Go where redirects lead; return the last target, its answer, and the answers that led there."""
        hops: list[Hop] = []
        seen: set[tuple[str, str | None]] = set()
        post = request.post
        while answer.status in REDIRECTS and (location := answer.first("location")) is not None:
            hops.append(Hop(url=target.url, status=answer.status, headers=answer.headers()))
            answer.drop()
            url = self._next(target.url, location, hops)
            if request.on_hop:
                await request.on_hop(url)
            if post is not None:
                headers, post = _posted_on(headers, post, answer.status, target.url, url)
            headers = for_hop(headers, target.url, url)
            target = await self._admit(request, url)
            # A site may send the visitor round once more to see the cookie that it has set.
            visit = target.url, self._cookies(request).header(target.url, target.host)
            if visit in seen:
                raise OutOfScope(f"The page redirects in a circle, back to {shorten(target.url)}")
            seen.add(visit)
            answer = await self._ask(request, target, headers, post)
        return target, answer, tuple(hops)

    async def _admit(self, request: Request, url: str) -> Target:
        return await (self._egress.admit_by(request.way, url) if request.way else self._egress.admit(url))

    def _cookies(self, request: Request) -> Cookies:
        return request.guise.cookies if request.guise else self._jar

    async def _ask(
        self, request: Request, target: Target, headers: Mapping[str, str], post: bytes | None
    ) -> Answer:
        jar = self._cookies(request)
        cookies = jar.header(target.url, target.host)
        if cookies:
            own = headers.get("cookie")
            headers = {**headers, "cookie": f"{own}; {cookies}" if own else cookies}
        secrets = current_secrets()
        if secrets and (headers or request.way):
            secrets.sent(headers, request.way.url if request.way else None)
        if post is None:
            answer = await self._engine.send(target, headers, request.way, request.guise)
        else:
            answer = await self._engine.send(target, headers, request.way, request.guise, post)
        if lines := answer.all("set-cookie"):
            jar.keep(target.url, target.host, map(as_text, lines))
            if secrets:
                secrets.received(map(as_text, lines))
        return answer

    def _next(self, url: str, location: str, hops: Sequence[Hop]) -> str:
        if len(hops) > self._limits.max_redirects:
            raise OutOfScope(f"The page redirects more than {self._limits.max_redirects} times")
        try:
            return join(url, as_text(location))
        except InvalidUrl as exc:
            raise OutOfScope(f"The page redirects to where nothing can be fetched. {exc}") from exc


def callers_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the caller's headers, names in lower case; raises InvalidSetting for those the fetcher sets."""
    lower = {name.lower(): value for name, value in headers.items()}
    for name, value in lower.items():
        if not _TOKEN.fullmatch(name) or _CONTROLS.search(value):
            raise InvalidSetting("headers", f"hold a name or value that cannot be sent: {name!r}")
    if taken := NOT_THE_CALLERS & lower.keys():
        raise InvalidSetting("headers", f"must not hold {min(taken)!r}: the fetcher sets it itself")
    return lower


def _posted_on(
    headers: Mapping[str, str], post: bytes, status: int, left: str, entered: str
) -> tuple[Mapping[str, str], bytes | None]:
    """Return what of a form goes on with a redirect: nothing, unless its host asks for it and is the same."""
    if status not in SENT_ON:
        return {name: value for name, value in headers.items() if name != "content-type"}, None
    if origin(left) != origin(entered):
        raise OutOfScope("The host redirects a form to another one; what it holds is not sent there")
    return headers, post


def for_hop(headers: Mapping[str, str], left: str, entered: str) -> Mapping[str, str]:
    """Return what of the caller's headers may go on to the next hop."""
    if not headers or origin(left) == origin(entered):
        return headers
    return {name: value for name, value in headers.items() if name in HARMLESS}


def origin(url: str) -> list[str]:
    """Return the scheme and host of a canonical URL, with an empty text between."""
    return url.split("/", 3)[:3]


def as_text(value: str) -> str:
    """Return a header's value as the text that it was meant to be."""
    # Header text comes one character per byte; what is not ASCII is UTF-8 in practice.
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value
