"""Fetching with aiohttp: HTTP/1.1, the second engine, for where wreq cannot run or is not trusted."""

import os
import socket
import ssl
from collections.abc import Mapping, Sequence
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
    shorten,
)
from shoal.core.exchange import Guise, Headers, OnBytes, Way
from shoal.fetch.address import Address
from shoal.fetch.decode import Unpacked, decoders, readable
from shoal.fetch.egress import Egress, Target
from shoal.fetch.hops import ACCEPT, CONNECT_TIMEOUT, IDLE_TIMEOUT, HopFetcher
from shoal.fetch.limits import DEFAULT_LIMITS, KIB, Limits
from shoal.fetch.shared import Shelf

try:
    import aiohttp
    from aiohttp.abc import AbstractResolver, ResolveResult
    from yarl import URL
except ImportError as exc:
    raise InvalidSetting("engine", "'aiohttp' is not installed. Run: pip install 'shoal[aiohttp]'") from exc

MOST_PINS = 10_000
LONGEST_FIELD = 80 * KIB  # aiohttp limits each header, not all of them together
MOST_FIELDS = 300


class AioHttpFetcher(HopFetcher):
    """Fetches by HTTP/1.1 with aiohttp."""

    def __init__(
        self,
        limits: Limits = DEFAULT_LIMITS,
        *,
        egress: Egress,
        user_agent: str,
        authorities: Path | None = None,
    ) -> None:
        super().__init__(AioHttpEngine(limits, user_agent, authorities), egress, limits)


class AioHttpEngine:
    """Sends requests with aiohttp."""

    def __init__(self, limits: Limits, user_agent: str, authorities: Path | None) -> None:
        self._limits, self._authorities = limits, authorities
        self._headers = {
            "User-Agent": user_agent,
            "Accept": ACCEPT,
            "Accept-Encoding": ", ".join(readable()),
        }
        self._pins = Pins()
        self._session: aiohttp.ClientSession | None = None

    async def send(
        self,
        target: Target,
        headers: Mapping[str, str],
        way: Way | None,
        guise: Guise | None,
        post: bytes | None = None,
    ) -> "AioHttpAnswer":
        """Ask one of the target's addresses; raises FetchError."""
        if way:
            raise InvalidSetting("engine", "'aiohttp' knows no proxies; take 'wreq'")
        if guise and guise.profile:
            raise InvalidSetting("engine", "'aiohttp' cannot look like a browser; take 'wreq'")
        self._session = self._session or self._open()
        self._pins.put(target)
        try:
            response = await self._session.request(
                "GET" if post is None else "POST",
                URL(target.url, encoded=True),
                headers=headers,
                data=post,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError) as exc:
            raise _translated(exc, target) from exc
        return AioHttpAnswer(response, target)

    async def close(self) -> None:
        """Let go of every connection."""
        if self._session:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        # Not before the first request: a session belongs to a running loop.
        connector = aiohttp.TCPConnector(
            resolver=self._pins,
            use_dns_cache=False,
            ssl=_trust(self._authorities),
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
            max_line_size=min(LONGEST_FIELD, self._limits.max_header_bytes),
            max_field_size=min(LONGEST_FIELD, self._limits.max_header_bytes),
            max_headers=min(MOST_FIELDS, self._limits.max_header_count),
        )
        # Else it asks a second time, unbidden, when the host hangs up; there is no public name for this.
        session._retry_connection = False
        return session


class Pins(AbstractResolver):
    """Answers with the addresses that were checked, and knows no others."""

    def __init__(self) -> None:
        self._addresses: Shelf[tuple[Address, ...]] = Shelf(MOST_PINS)

    def put(self, target: Target) -> None:
        """Learn the checked addresses of a name."""
        if not target.is_literal:
            self._addresses.put(target.name, target.addresses)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the checked addresses of a name; raises OSError for one that was not checked."""
        addresses = self._addresses.get(host)
        if addresses is None:
            raise OSError(f"the addresses of {host!r} have not been checked")
        return [_resolved(host, port, address) for address in addresses]

    async def close(self) -> None:
        """Nothing is held open."""


class AioHttpAnswer:
    """The head of an answer; its body is still on the wire."""

    def __init__(self, response: aiohttp.ClientResponse, target: Target) -> None:
        self._response, self._target = response, target
        self.status = response.status

    def first(self, name: str) -> str | None:
        """Return the first value under a name."""
        return next(iter(self.all(name)), None)

    def all(self, name: str) -> Sequence[str]:
        """Return every value under a name."""
        wanted = name.encode()
        fields = self._response.raw_headers
        return [value.decode("latin-1") for key, value in fields if key.lower() == wanted]

    def headers(self) -> Headers:
        """Return all fields."""
        fields = self._response.raw_headers
        return Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in fields])

    async def body(self, most: int, on_bytes: OnBytes | None) -> bytes:
        """Return the decompressed body; raises TooLarge when it has more than `most` bytes."""
        response = self._response
        try:
            if (response.content_length or 0) > most:
                raise TooLarge(
                    f"{self._target.host} announces {response.content_length:,} bytes; the limit is {most:,}"
                )
            whole = Unpacked(decoders(self.all("content-encoding")), most)
            async for part in response.content.iter_any():
                grown = whole.feed(part)
                if on_bytes:
                    await on_bytes(grown)
            return whole.finish()
        except (aiohttp.ClientError, OSError) as exc:
            raise _translated(exc, self._target) from exc
        finally:
            response.release()

    def drop(self) -> None:
        """Let go of the body unread."""
        self._response.release()


@cache
def _trust(authorities: Path | None) -> ssl.SSLContext:
    # Reading the system's certificates takes 30 ms.
    return ssl.create_default_context(cafile=authorities)


def _resolved(host: str, port: int, address: Address) -> ResolveResult:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    return ResolveResult(
        hostname=host,
        host=str(address),
        port=port,
        family=family,
        proto=0,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )


def _translated(exc: Exception, target: Target) -> FetchError:
    """Return our error for one of aiohttp's."""
    host = target.host
    match exc:
        case aiohttp.InvalidURL():
            return OutOfScope(
                f"Not a URL that can be fetched: {shorten(target.url)!r}: the engine refuses it"
            )
        case aiohttp.ServerTimeoutError():
            return FetchTimeout(f"{host} did not answer in time")
        case aiohttp.ClientSSLError():
            return TlsFailed(f"{host}: its TLS cannot be trusted: {_reason(exc)}")
        case aiohttp.ClientConnectorError():
            return ConnectFailed(f"{host}: no connection could be made: {_reason(exc)}")
        case aiohttp.ServerDisconnectedError():
            return BrokenAnswer(f"{host}: it hung up without an answer")
        case aiohttp.ClientResponseError() if "more than" in exc.message or "Too many" in exc.message:
            return TooLarge(f"{host}: its headers are larger than the limit")
        case aiohttp.ClientResponseError():
            return BrokenAnswer(f"{host}: its answer is not HTTP")
        case _:
            return BrokenAnswer(f"{host}: it hung up before the end of the answer")


def _reason(exc: aiohttp.ClientConnectorError) -> str:
    cause: Any = getattr(exc, "certificate_error", None) or exc.os_error
    if isinstance(cause, ssl.SSLError):
        return str(getattr(cause, "verify_message", None) or cause.reason).replace("_", " ").lower()
    return (os.strerror(cause.errno) if cause.errno else str(cause)).lower()
