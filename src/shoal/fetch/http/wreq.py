"""Fetches with wreq: HTTP/1.1 and HTTP/2, one client per host name, pinned to the checked addresses."""

import resource
from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import wreq

from shoal.core.errors import BrokenAnswer, OutOfScope
from shoal.core.http import Headers, OnBytes, Request
from shoal.core.request_options import HEAD, METHODS, POST
from shoal.fetch.contract import Limits
from shoal.fetch.egress import AllowedTarget
from shoal.fetch.http.client import ACCEPT, CONNECT_TIMEOUT, IDLE_TIMEOUT, ResponseHead
from shoal.fetch.http.decode import Piece
from shoal.fetch.http.profiles import profile_of
from shoal.fetch.http.wreq_errors import BROKEN, translate_error, translate_proxy_error, was_closed
from shoal.fetch.ip_ranges import Address

BODILESS = (204, 304)  # statuses without a body, whatever length they announce
MAX_CLIENTS = 1_000
IDLE_PER_HOST = 64  # connections
PROFILE_OPTIONS = ("user_agent", "headers", "http2_options")  # options that a browser's profile sets itself


class _Pinned(NamedTuple):
    client: wreq.Client
    addresses: tuple[Address, ...]


_METHODS = {name: getattr(wreq.Method, name) for name in METHODS}


def _with_body(url: str, headers: Mapping[str, str], post: bytes, method: str) -> dict[str, Any]:
    """Return the headers and the body as options; a POST without one says that it is empty."""
    if not post and method != POST:
        return {"headers": dict(headers)}
    # wreq sends the length itself, except that of a stream and that of an empty body.
    others = {name: value for name, value in headers.items() if name.lower() != "content-length"}
    sized = {**others, "content-length": str(len(post))}
    # As a stream where it may be HTTP/2: what wreq can repeat, it sends up to three times to a host that
    # refuses it (REFUSED_STREAM), and it has no option against that.
    return {"headers": sized, "body": _stream(post) if url.startswith("https:") else post}


async def _stream(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body


class WreqEngine:
    """Sends requests with wreq, the default engine: by HTTP/1.1 and HTTP/2."""

    def __init__(self, limits: Limits, user_agent: str, authorities: Path | None) -> None:
        self._options = _client_options(limits, user_agent, authorities)
        self._pinned: OrderedDict[tuple[str, str], _Pinned] = OrderedDict()
        self._max_clients_count = _max_clients()
        self._proxy_clients: dict[str, wreq.Client] = {}
        # The first client of a process takes 3 ms to make, and the first request should not wait for it.
        self._pin(("", ""), ())

    async def send(
        self,
        target: AllowedTarget,
        headers: Mapping[str, str],
        post: bytes | None,
        method: str,
        request: Request,
    ) -> "WreqResponse":
        """Send to one of the target's addresses, or through the proxy; raises FetchError."""
        proxy, identity = request.proxy, request.identity
        profile = identity.profile if identity and identity.profile else ""
        client = self._proxy_client(profile) if proxy else self._client(target, profile)
        options: dict[str, Any] = {"headers": headers} if headers else {}
        if proxy:
            options["proxy"] = wreq.Proxy.all(proxy.url)
        try:
            if post is None:
                response = await _get(client, target.url, options, may_repeat=request.on_sent is None)
            else:
                options |= _with_body(target.url, headers, post, method)
                response = await client.request(_METHODS[method], target.url, **options)
        except BROKEN as exc:
            if proxy:
                # Without its cause: wreq's own text may hold the proxy's credentials.
                raise translate_proxy_error(proxy, exc, target) from None
            raise translate_error(exc, target) from exc
        peer = None if proxy else response.remote_addr
        if peer and peer.ip() not in target.addresses:
            raise OutOfScope(f"{target.host} responded from {peer.ip()}, an address that was not checked")
        return WreqResponse(response, target, is_head=method == HEAD)

    def _proxy_client(self, profile: str) -> wreq.Client:
        if profile not in self._proxy_clients:
            # It resolves only the names of proxies: their schemes leave all other names to the proxy.
            names = wreq.DnsOptions(system_dns=True)
            self._proxy_clients[profile] = wreq.Client(dns_options=names, **self._options_for(profile))
        return self._proxy_clients[profile]

    async def close(self) -> None:
        # Not with wreq's own `close`, which would cancel the tasks that still wait for a response.
        self._pinned.clear()
        self._proxy_clients.clear()

    def _options_for(self, profile: str) -> dict[str, Any]:
        """Return the options of a client that emulates a browser, or of one that does not."""
        if not profile:
            return self._options

        own = {name: value for name, value in self._options.items() if name not in PROFILE_OPTIONS}
        return {**own, "emulation": profile_of(profile)}

    def _client(self, target: AllowedTarget, profile: str) -> wreq.Client:
        """Return the client of a host name, which uses no resolver; URLs with an IP address share one."""
        name = profile, "" if target.is_literal else target.name
        pinned = self._pinned.get(name)
        if pinned is None or not (target.is_literal or pinned.addresses is target.addresses):
            pinned = self._pin(name, target.addresses)
        self._pinned.move_to_end(name)
        return pinned.client

    def _pin(self, key: tuple[str, str], addresses: tuple[Address, ...]) -> _Pinned:
        profile, name = key
        names = wreq.DnsOptions(system_dns=True)  # never used; the other kind takes twice as long to make
        if name:
            names.add_resolve(name, addresses)
        # A replaced or evicted client is not closed: it ends with the last request that uses it.
        pinned = self._pinned[key] = _Pinned(
            wreq.Client(dns_options=names, **self._options_for(profile)), addresses
        )
        if len(self._pinned) > self._max_clients_count:
            self._pinned.popitem(last=False)
        return pinned


class WreqResponse(ResponseHead):
    """The head of a response; its body has not been read yet."""

    __slots__ = ("_fields", "_is_head", "_response")

    def __init__(self, response: wreq.Response, target: AllowedTarget, *, is_head: bool = False) -> None:
        super().__init__(response.status.as_int(), target)
        self._response, self._is_head = response, is_head
        self._fields = response.headers

    @property
    def announced_size(self) -> int | None:
        return self._response.content_length  # None where wreq decompresses, whatever the header says

    def first(self, name: str) -> str | None:
        value = self._fields.get(name)
        return None if value is None else str(value, "latin-1")

    def all(self, name: str) -> Sequence[str]:
        if name not in self._fields:  # a fifth of the cost of `get_all`
            return ()
        return [str(value, "latin-1") for value in self._fields.get_all(name)]

    def headers(self) -> Headers:
        return WreqHeaders(self._fields)

    async def body(self, max_bytes: int, on_bytes: OnBytes | None) -> bytes:
        size = self.announced_size
        # wreq decodes the encodings it offered and removes the header; any left was sent unrequested.
        if size is None or self.all("content-encoding"):
            return await super().body(max_bytes, on_bytes)
        self._check_announced(max_bytes)
        if on_bytes:
            await on_bytes(size)
        try:
            whole = bytes(await self._response.bytes())
        except BROKEN as exc:
            raise translate_error(exc, self.target) from exc
        self._check_complete(len(whole))
        return whole

    async def parts(self) -> AsyncGenerator[Piece, None]:
        received = 0
        try:
            async with self._response.stream() as stream:
                async for part in stream:
                    if isinstance(part, memoryview):  # else trailers
                        received += part.nbytes
                        yield part
        except BROKEN as exc:
            raise translate_error(exc, self.target) from exc
        self._check_complete(received)

    def _check_complete(self, received: int) -> None:
        """Raise BrokenAnswer for a body that is shorter than announced.

        Over HTTP/2, wreq takes a reset or a closed connection without an error for the end of the body.
        """
        size = self.announced_size
        if size is None or received >= size or self._is_head or self.status in BODILESS:
            return
        raise BrokenAnswer(f"{self.target.host}: its response ended after {received:,} of {size:,} bytes")

    def release(self) -> None:
        del self._response


class WreqHeaders(Headers):
    """Header fields that are decoded when they are read, since most never are."""

    __slots__ = ("_map", "_texts")

    def __init__(self, fields: wreq.HeaderMap) -> None:
        self._map = fields
        self._texts: tuple[tuple[str, str], ...] | None = None

    def __getitem__(self, name: str) -> str:
        value = self._map.get(name)
        if value is None:
            raise KeyError(name)
        return str(value, "latin-1")

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for name, _ in self.fields))

    def __len__(self) -> int:
        return self._map.keys_len()

    def __repr__(self) -> str:
        return f"Headers({list(self.fields)!r})"

    def all(self, name: str) -> list[str]:
        """Return every value of a header, in order."""
        return [str(value, "latin-1") for value in self._map.get_all(name)]

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """The fields as they were sent, with names in lower case."""
        if self._texts is None:
            self._texts = tuple((str(name, "latin-1"), str(value, "latin-1")) for name, value in self._map)
        return self._texts


async def _get(
    client: wreq.Client, url: str, options: Mapping[str, Any], *, may_repeat: bool
) -> wreq.Response:
    try:
        return await client.get(url, **options)
    except BROKEN as exc:
        # Some proxies close every connection silently, even at the moment in which it is reused.
        if not may_repeat or "proxy" not in options or not url.startswith("http:") or not was_closed(exc):
            raise
    return await client.get(url, **options)


def _max_clients() -> int:
    """Return how many hosts may have a client; idle connections must leave file descriptors for others."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CLIENTS if files == resource.RLIM_INFINITY else min(MAX_CLIENTS, files // 4)


def _client_options(limits: Limits, user_agent: str, authorities: Path | None) -> dict[str, Any]:
    # Slightly broken servers are common; what browsers tolerate is tolerated here.
    http1 = wreq.Http1Options(
        max_headers=limits.max_header_count,
        max_buf_size=limits.max_header_bytes,
        ignore_invalid_headers_in_responses=True,
        allow_spaces_after_header_name_in_responses=True,
        allow_obsolete_multiline_headers_in_responses=True,
    )
    return {
        "runtime": wreq.Runtime(workers=1),
        "user_agent": user_agent,
        "headers": {"accept": ACCEPT},
        "redirect": wreq.redirect.Policy.none(),
        "http1_options": http1,
        "http2_options": wreq.Http2Options(max_header_list_size=limits.max_header_bytes),
        "connect_timeout": CONNECT_TIMEOUT,
        "pool_idle_timeout": IDLE_TIMEOUT,
        "pool_max_idle_per_host": IDLE_PER_HOST,
        "pool_max_size": _max_clients(),  # hosts; URLs with an IP address share a client
        "no_proxy": True,  # only the proxy of a request is used, never the system's
        "tls_verify": authorities or True,
        "gzip": True,
        "brotli": True,
        "zstd": True,
        "deflate": False,  # wreq decodes only one of its two variants
    }
