"""The HTTP client: sends requests, follows redirects through egress checks, under one deadline."""

import errno
import os
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import timedelta
from time import perf_counter
from typing import Protocol

from shoal.core.errors import (
    ConnectFailed,
    DnsFailed,
    FetchError,
    FetchTimeout,
    InvalidSetting,
    InvalidUrl,
    NoFilesLeft,
    OutOfScope,
    TooLarge,
)
from shoal.core.http import BodySink, Cookies, Headers, Hop, OnBytes, Request, Response
from shoal.core.model import NOTHING
from shoal.core.request_options import HEAD, POST, after_redirect
from shoal.core.secrets import current_secrets
from shoal.core.text import shorten
from shoal.core.urls import join
from shoal.fetch.contract import Limits
from shoal.fetch.deadlines import Deadline, Deadlines
from shoal.fetch.egress import AllowedTarget, Egress
from shoal.fetch.http.cookies import CookieJar
from shoal.fetch.http.decode import DecodedBody, Piece, decoders

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
CONNECT_TIMEOUT = timedelta(seconds=15)
IDLE_TIMEOUT = timedelta(seconds=30)  # how long an idle connection stays open for the next request
FILES_WAIT = timedelta(seconds=5)  # until a task is tried again for which no file could be opened
REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Caller's headers that any host may receive; all others go only to the origin of the first URL.
SHAREABLE = frozenset({"accept", "accept-language", "user-agent"})
RESERVED = frozenset(
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


class ResponseHead(ABC):
    """The head of a response, as an engine returns it; its body has not been read yet."""

    __slots__ = ("status", "target")

    def __init__(self, status: int, target: AllowedTarget) -> None:
        self.status, self.target = status, target

    @property
    @abstractmethod
    def announced_size(self) -> int | None:
        """The size of the body by its header; None where it does not tell how much `parts` returns."""

    @abstractmethod
    def first(self, name: str) -> str | None:
        """Return the first value of a header, whose name is in lower case."""

    @abstractmethod
    def all(self, name: str) -> Sequence[str]:
        """Return every value of a header, whose name is in lower case."""

    @abstractmethod
    def headers(self) -> Headers:
        """Return all header fields."""

    @abstractmethod
    def parts(self) -> AsyncGenerator[Piece, None]:
        """Yield the body as it arrives, then release the connection; raises FetchError."""

    @abstractmethod
    def release(self) -> None:
        """Release the connection without reading the body."""

    async def body(self, max_bytes: int, on_bytes: OnBytes | None) -> bytes:
        """Return the decompressed body; raises TooLarge when it has more than `max_bytes` bytes."""
        decoded = self._begin_body(max_bytes)
        async with aclosing(self.parts()) as parts:
            async for part in parts:
                grown = decoded.feed(part)
                if on_bytes:
                    await on_bytes(grown)
        return decoded.finish()

    async def save(self, max_bytes: int, sink: BodySink) -> None:
        """Pass the decompressed body on; raises TooLarge when it has more than `max_bytes` bytes."""
        decoded = self._begin_body(max_bytes)
        async with aclosing(self.parts()) as parts:
            async for part in parts:
                for piece in decoded.decode(part):
                    await sink.write(piece)
        decoded.finish()

    def _begin_body(self, max_bytes: int) -> DecodedBody:
        try:
            self._check_announced(max_bytes)
            return DecodedBody(decoders(self.all("content-encoding")), max_bytes)
        except FetchError:
            self.release()
            raise

    def _check_announced(self, max_bytes: int) -> None:
        size = self.announced_size
        if size is not None and size > max_bytes:
            raise TooLarge(f"{self.target.host} announces {size:,} bytes; the limit is {max_bytes:,}")


class HttpEngine(Protocol):
    """Sends one request and follows no redirects."""

    async def send(
        self,
        target: AllowedTarget,
        headers: Mapping[str, str],
        post: bytes | None,
        method: str,
        request: Request,
    ) -> ResponseHead:
        """Send a GET to the target's addresses, or through the proxy; with `post`, the method with this body.

        `request` is what the fetcher was asked for: its proxy and identity hold for all hops. Without its
        `on_sent`, a GET may be sent again over another connection. Raises FetchError.
        """
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...


class RedirectingClient:
    """Follows redirects with one engine, and handles cookies and credentials on the way."""

    def __init__(self, engine: HttpEngine, egress: Egress, limits: Limits) -> None:
        self._engine, self._egress, self._limits = engine, egress, limits
        self._jar, self._deadlines = CookieJar(), Deadlines()
        self._closed = False

    async def fetch(self, request: Request) -> Response:
        if self._closed:
            raise ConnectFailed("This fetcher has been closed")
        started = perf_counter()
        try:
            with self._deadlines.within(request.timeout) as deadline:
                return await self._follow_redirects(request, started, deadline)
        except ConnectFailed as exc:
            if _is_out_of_files(exc):
                raise NoFilesLeft("too many open files; the task is tried again", FILES_WAIT) from exc
            raise
        except TimeoutError as exc:
            raise FetchTimeout(f"No complete response within {request.timeout.total_seconds():g} s") from exc

    async def close(self) -> None:
        self._closed = True
        await self._engine.close()

    async def _follow_redirects(self, request: Request, started: float, deadline: Deadline) -> Response:
        headers = check_headers(request.headers) if request.headers else NOTHING
        target = await self._egress.admit_request(request.url, request.proxy)
        response = await self._send(request, target, headers, request.post, request.method)
        hops: tuple[Hop, ...] = ()
        if response.status in REDIRECTS:
            target, response, hops = await self._follow_chain(request, target, response, headers, deadline)
        return Response(
            url=target.url,
            status=response.status,
            headers=response.headers(),
            body=await self._read_body(request, response),
            redirects=tuple(hop.url for hop in hops) if hops else (),
            elapsed=timedelta(seconds=perf_counter() - started - deadline.suspended),
            hops=hops,
        )

    async def _read_body(self, request: Request, response: ResponseHead) -> bytes:
        """Return the body, or pass it on to a request's sink and return none."""
        sink = request.save
        limit = sink.begin(response.status, response.headers()) if sink else None
        if sink is None or limit is None:
            return await response.body(self._limits.max_body, request.on_bytes)
        await response.save(limit, sink)
        return b""

    async def _follow_chain(
        self,
        request: Request,
        target: AllowedTarget,
        response: ResponseHead,
        headers: Mapping[str, str],
        deadline: Deadline,
    ) -> tuple[AllowedTarget, ResponseHead, tuple[Hop, ...]]:
        """Follow redirects; return the last target, its response, and the redirects that led there."""
        hops: list[Hop] = []
        seen: set[tuple[str, str | None]] = set()
        post, method = request.post, request.method
        while response.status in REDIRECTS and (location := response.first("location")) is not None:
            hops.append(Hop(url=target.url, status=response.status, headers=response.headers()))
            response.release()
            url = redirect_target(target.url, location, len(hops), self._limits)
            if request.on_hop:
                with deadline.suspend():  # it may wait until the host may get a request
                    await request.on_hop(url)
            if post is not None:
                method = after_redirect(method, response.status)
                headers, post = _redirect_body(headers, post, method, target.url, url)
            headers = headers_for_hop(headers, target.url, url)
            target = await self._egress.admit_request(url, request.proxy)
            # A site may redirect to the same URL once more to see the cookie that it has set.
            visit = target.url, self._cookies(request).header(target.url, target.host)
            if visit in seen:
                raise OutOfScope(f"The page redirects in a loop, back to {shorten(target.url)}")
            seen.add(visit)
            response = await self._send(request, target, headers, post, method)
        return target, response, tuple(hops)

    def _cookies(self, request: Request) -> Cookies:
        return request.identity.cookies if request.identity else self._jar

    async def _send(
        self,
        request: Request,
        target: AllowedTarget,
        headers: Mapping[str, str],
        post: bytes | None,
        method: str,
    ) -> ResponseHead:
        jar = self._cookies(request)
        cookies = jar.header(target.url, target.host)
        if cookies:
            own = headers.get("cookie")
            headers = {**headers, "cookie": f"{own}; {cookies}" if own else cookies}
        secrets = current_secrets()
        if secrets and (headers or request.proxy):
            secrets.sent(headers, request.proxy.url if request.proxy else None)
        response = await self._engine.send(target, headers, post, method, request)
        if lines := response.all("set-cookie"):
            jar.store(target.url, target.host, map(as_text, lines))
            if secrets:
                secrets.received(map(as_text, lines))
        return response


def _is_out_of_files(error: ConnectFailed) -> bool:
    """Tell whether a connection failed because this process or machine has too many open files."""
    if os.strerror(errno.EMFILE).lower() in str(error).lower():
        return True
    if not isinstance(error, DnsFailed):
        return False
    try:
        os.close(os.dup(2))  # the resolver does not say why it failed
    except OSError as failed:
        return failed.errno in (errno.EMFILE, errno.ENFILE)
    return False


def redirect_target(url: str, location: str, number: int, limits: Limits) -> str:
    """Return where redirect number `number` leads; raises OutOfScope."""
    if number > limits.max_redirects:
        raise OutOfScope(f"The page redirects more than {limits.max_redirects} times")
    try:
        return join(url, as_text(location))
    except InvalidUrl as exc:
        raise OutOfScope(f"The page redirects to a URL that cannot be fetched. {exc}") from exc


def check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the caller's headers, names in lower case; raises InvalidSetting for those the fetcher sets."""
    lower = {name.lower(): value for name, value in headers.items()}
    for name, value in lower.items():
        if not _TOKEN.fullmatch(name) or _CONTROLS.search(value):
            raise InvalidSetting("headers", f"hold a name or value that cannot be sent: {name!r}")
    if taken := RESERVED & lower.keys():
        raise InvalidSetting("headers", f"must not hold {min(taken)!r}: the fetcher sets it itself")
    return lower


def _redirect_body(
    headers: Mapping[str, str], post: bytes, method: str, left: str, entered: str
) -> tuple[Mapping[str, str], bytes | None]:
    """Return headers and body after a redirect: no body for a GET, and none for another host."""
    if method == "GET":
        return {name: value for name, value in headers.items() if name != "content-type"}, None
    if method != HEAD and origin(left) != origin(entered):
        what = "a form" if method == POST else f"a {method}"
        raise OutOfScope(f"The host redirects {what} to another host; its data is not sent there")
    return headers, post


def headers_for_hop(headers: Mapping[str, str], left: str, entered: str) -> Mapping[str, str]:
    """Return the caller's headers that may be sent to the next hop."""
    if not headers or origin(left) == origin(entered):
        return headers
    return {name: value for name, value in headers.items() if name in SHAREABLE}


def origin(url: str) -> list[str]:
    """Return the scheme and host of a canonical URL, with an empty string between."""
    return url.split("/", 3)[:3]


def as_text(value: str) -> str:
    """Return a header value decoded as text."""
    # Header text has one character per byte; non-ASCII values are UTF-8 in practice.
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value
