"""Fetches with aiohttp: HTTP/1.1 only; the second engine, for systems where wreq cannot be used."""

import os
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from shoal.core.errors import (
    BrokenAnswer,
    ConnectFailed,
    FetchError,
    FetchTimeout,
    InvalidSetting,
    OutOfScope,
    TlsFailed,
    TooLarge,
)
from shoal.core.http import Headers, Request
from shoal.core.request_options import POST
from shoal.core.text import shorten
from shoal.fetch.contract import KIB, Limits
from shoal.fetch.egress import AllowedTarget
from shoal.fetch.http.client import ACCEPT, CONNECT_TIMEOUT, IDLE_TIMEOUT, ResponseHead
from shoal.fetch.http.decode import Piece
from shoal.fetch.ip_ranges import Address
from shoal.fetch.singleflight import LruCache
from shoal.registry.extras import install_command

try:
    import aiohttp
    from aiohttp.abc import AbstractResolver, ResolveResult
    from yarl import URL
except ImportError as exc:
    raise InvalidSetting("engine", f"'aiohttp' is not installed. Run: {install_command('aiohttp')}") from exc

MAX_PINS = 10_000
MAX_FIELD_SIZE = 80 * KIB  # aiohttp limits each header, not all of them together
MAX_FIELDS = 300


class AioHttpEngine:
    """Sends requests with aiohttp, by HTTP/1.1."""

    def __init__(self, limits: Limits, user_agent: str, authorities: Path | None) -> None:
        self._limits, self._authorities = limits, authorities
        self._headers = {
            "User-Agent": user_agent,
            "Accept": ACCEPT,
            "Accept-Encoding": "gzip",
        }
        self._pins = PinnedResolver()
        self._session: aiohttp.ClientSession | None = None

    async def send(
        self,
        target: AllowedTarget,
        headers: Mapping[str, str],
        post: bytes | None,
        method: str,
        request: Request,
    ) -> "AioHttpResponse":
        """Send to one of the target's addresses; raises FetchError."""
        if request.proxy:
            raise InvalidSetting("engine", "'aiohttp' does not support proxies; use 'wreq'")
        if request.identity and request.identity.profile:
            raise InvalidSetting("engine", "'aiohttp' cannot emulate a browser; use 'wreq'")
        self._session = self._session or self._open()
        self._pins.put(target)
        try:
            response = await self._session.request(
                "GET" if post is None else method,
                URL(target.url, encoded=True),
                headers=headers,
                data=post if post or method == POST else None,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError) as exc:
            raise _translate_error(exc, target) from exc
        return AioHttpResponse(response, target)

    async def close(self) -> None:
        if self._session:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        # Not before the first request: a session belongs to a running event loop.
        connector = aiohttp.TCPConnector(
            resolver=self._pins,
            use_dns_cache=False,
            ssl=_tls_context(self._authorities),
            limit=0,
            keepalive_timeout=IDLE_TIMEOUT.total_seconds(),
        )
        session = aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT.total_seconds()),
            auto_decompress=False,
            trust_env=False,
            max_line_size=min(MAX_FIELD_SIZE, self._limits.max_header_bytes),
            max_field_size=min(MAX_FIELD_SIZE, self._limits.max_header_bytes),
            max_headers=min(MAX_FIELDS, self._limits.max_header_count),
        )
        # Else it retries by itself when the host closes the connection; there is no public option for this.
        session._retry_connection = False
        return session


class PinnedResolver(AbstractResolver):
    """Resolves names to the addresses that were checked, and no other names."""

    def __init__(self) -> None:
        self._addresses: LruCache[tuple[Address, ...]] = LruCache(MAX_PINS)

    def put(self, target: AllowedTarget) -> None:
        """Store the checked addresses of a name."""
        if not target.is_literal:
            self._addresses.put(target.name, target.addresses)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the checked addresses of a name; raises OSError for one that was not checked."""
        addresses = self._addresses.get(host)
        if addresses is None:
            raise OSError(f"the addresses of {host!r} have not been checked")
        return [_resolve_result(host, port, address) for address in addresses]

    async def close(self) -> None:
        """Do nothing: no resource is open."""


class AioHttpResponse(ResponseHead):
    """The head of a response; its body has not been read yet."""

    __slots__ = ("_response",)

    def __init__(self, response: aiohttp.ClientResponse, target: AllowedTarget) -> None:
        super().__init__(response.status, target)
        self._response = response

    @property
    def announced_size(self) -> int | None:
        return self._response.content_length

    def first(self, name: str) -> str | None:
        return next(iter(self.all(name)), None)

    def all(self, name: str) -> Sequence[str]:
        wanted = name.encode()
        fields = self._response.raw_headers
        return [value.decode("latin-1") for key, value in fields if key.lower() == wanted]

    def headers(self) -> Headers:
        fields = self._response.raw_headers
        return Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in fields])

    async def parts(self) -> AsyncGenerator[Piece, None]:
        try:
            async for part in self._response.content.iter_any():
                yield part
        except (aiohttp.ClientError, OSError) as exc:
            raise _translate_error(exc, self.target) from exc
        finally:
            self._response.release()

    def release(self) -> None:
        self._response.release()


@cache
def _tls_context(authorities: Path | None) -> ssl.SSLContext:
    # Loading the system's certificates takes 30 ms.
    return ssl.create_default_context(cafile=authorities)


def _resolve_result(host: str, port: int, address: Address) -> ResolveResult:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    return ResolveResult(
        hostname=host,
        host=str(address),
        port=port,
        family=family,
        proto=0,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )


def _translate_error(exc: Exception, target: AllowedTarget) -> FetchError:
    """Translate an error of aiohttp into ours."""
    host = target.host
    match exc:
        case aiohttp.InvalidURL():
            return OutOfScope(
                f"Not a URL that can be fetched: {shorten(target.url)!r}: the engine rejects it"
            )
        case aiohttp.ServerTimeoutError():
            return FetchTimeout(f"{host} did not respond in time")
        case aiohttp.ClientSSLError():
            return TlsFailed(f"{host}: its TLS cannot be trusted: {_reason(exc)}")
        case aiohttp.ClientConnectorError():
            return ConnectFailed(f"{host}: connection failed: {_reason(exc)}")
        case aiohttp.ServerDisconnectedError():
            return BrokenAnswer(f"{host}: it closed the connection without a response")
        case aiohttp.ClientResponseError() if "more than" in exc.message or "Too many" in exc.message:
            return TooLarge(f"{host}: its headers are larger than the limit")
        case aiohttp.ClientResponseError():
            return BrokenAnswer(f"{host}: its response is not HTTP")
        case _:
            return BrokenAnswer(f"{host}: it closed the connection before the end of the response")


def _reason(exc: aiohttp.ClientConnectorError) -> str:
    cause: Any = getattr(exc, "certificate_error", None) or exc.os_error
    if isinstance(cause, ssl.SSLError):
        return str(getattr(cause, "verify_message", None) or cause.reason).replace("_", " ").lower()
    return (os.strerror(cause.errno) if cause.errno else str(cause)).lower()
