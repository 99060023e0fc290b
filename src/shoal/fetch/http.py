"""Fetching with wreq: HTTP/1.1 and HTTP/2, a client per host name, pinned to the checked addresses."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import wreq

from shoal.core.errors import OutOfScope, TooLarge
from shoal.core.exchange import Guise, Headers, OnBytes, Way
from shoal.fetch.address import Address
from shoal.fetch.decode import Unpacked, decoders
from shoal.fetch.egress import Egress, Target
from shoal.fetch.hops import ACCEPT, CONNECT_TIMEOUT, IDLE_TIMEOUT, HopFetcher
from shoal.fetch.limits import DEFAULT_LIMITS, Limits
from shoal.fetch.wreq_errors import BROKEN, translated, translated_by, was_closed

MOST_CLIENTS = 1_000
IDLE_PER_HOST = 64  # connections
BROWSERS_OWN = ("user_agent", "headers", "http2_options")  # options that a browser's profile brings with it


class HttpFetcher(HopFetcher):
    """Fetches by HTTP/1.1 and HTTP/2 with wreq, the default.

    `authorities` is a PEM file of the certificates to trust instead of the usual ones.
    """

    def __init__(
        self,
        limits: Limits = DEFAULT_LIMITS,
        *,
        egress: Egress,
        user_agent: str,
        authorities: Path | None = None,
    ) -> None:
        super().__init__(WreqEngine(limits, user_agent, authorities), egress, limits)


class _Pinned(NamedTuple):
    client: wreq.Client
    addresses: tuple[Address, ...]


class WreqEngine:
    """Sends requests with wreq."""

    def __init__(self, limits: Limits, user_agent: str, authorities: Path | None) -> None:
        self._options = _client_options(limits, user_agent, authorities)
        self._pinned: OrderedDict[tuple[str, str], _Pinned] = OrderedDict()
        self._most = _most_clients()
        self._beyond: dict[str, wreq.Client] = {}
        # The first client of a process takes 3 ms to make, which a request that is due would have to wait.
        self._pin(("", ""), ())

    async def send(
        self,
        target: Target,
        headers: Mapping[str, str],
        way: Way | None,
        guise: Guise | None,
        post: bytes | None = None,
    ) -> "WreqAnswer":
        """Ask one of the target's addresses, or by this way; raises FetchError."""
        profile = guise.profile if guise and guise.profile else ""
        if way:
            return await self._send_by(way, target, headers, profile, post)
        client = self._client(target, profile)
        try:
            if post is not None:
                answer = await client.post(target.url, headers=headers, body=post)
            else:
                answer = await (
                    client.get(target.url, headers=headers) if headers else client.get(target.url)
                )
        except BROKEN as exc:
            raise translated(exc, target) from exc
        peer = answer.remote_addr
        if peer and peer.ip() not in target.addresses:
            raise OutOfScope(f"{target.host} answered from {peer.ip()}, an address that was not checked")
        return WreqAnswer(answer, target)

    async def _send_by(
        self, way: Way, target: Target, headers: Mapping[str, str], profile: str, post: bytes | None
    ) -> "WreqAnswer":
        if profile not in self._beyond:
            # It resolves the names of proxies and no others: the schemes of a way see to that.
            names = wreq.DnsOptions(system_dns=True)
            self._beyond[profile] = wreq.Client(dns_options=names, **self._worn(profile))
        client, proxy = self._beyond[profile], wreq.Proxy.all(way.url)
        try:
            if post is not None:
                answer = await client.post(target.url, headers=dict(headers), proxy=proxy, body=post)
            else:
                answer = await _got_by(proxy, client, target.url, dict(headers))
        except BROKEN as exc:
            # Without its cause: wreq's own text may hold what the proxy was told.
            raise translated_by(way, exc, target) from None
        return WreqAnswer(answer, target)

    async def close(self) -> None:
        """Let go of every connection."""
        # Not with wreq's own `close`, which would cancel the tasks of those who still wait for an answer.
        self._pinned.clear()
        self._beyond.clear()

    def _worn(self, profile: str) -> dict[str, Any]:
        """Return the options of a client that wears a browser, or comes as what it is."""
        if not profile:
            return self._options
        from shoal.fetch.sessions.profiles import profile_of

        own = {name: value for name, value in self._options.items() if name not in BROWSERS_OWN}
        return {**own, "emulation": profile_of(profile)}

    def _client(self, target: Target, profile: str) -> wreq.Client:
        """Return the client of a host name, which asks no resolver; URLs that spell an address share one."""
        name = profile, "" if target.is_literal else target.name
        pinned = self._pinned.get(name)
        if pinned is None or not (target.is_literal or pinned.addresses is target.addresses):
            pinned = self._pin(name, target.addresses)
        self._pinned.move_to_end(name)
        return pinned.client

    def _pin(self, key: tuple[str, str], addresses: tuple[Address, ...]) -> _Pinned:
        profile, name = key
        names = wreq.DnsOptions(system_dns=True)  # never asked; the other kind takes twice the time to make
        if name:
            names.add_resolve(name, addresses)
        # One that is replaced or pushed out is not closed: the last request that it carries lets it go.
        pinned = self._pinned[key] = _Pinned(wreq.Client(dns_options=names, **self._worn(profile)), addresses)
        if len(self._pinned) > self._most:
            self._pinned.popitem(last=False)
        return pinned


class WreqAnswer:
    """The head of an answer; its body is still on the wire."""

    __slots__ = ("_answer", "_fields", "_target", "status")

    def __init__(self, answer: wreq.Response, target: Target) -> None:
        self._answer, self._target = answer, target
        self._fields = answer.headers
        self.status = answer.status.as_int()

    def first(self, name: str) -> str | None:
        """Return the first value under a name."""
        value = self._fields.get(name)
        return None if value is None else str(value, "latin-1")

    def all(self, name: str) -> Sequence[str]:
        """Return every value under a name."""
        if name not in self._fields:  # which costs a fifth of looking for all
            return ()
        return [str(value, "latin-1") for value in self._fields.get_all(name)]

    def headers(self) -> Headers:
        """Return all fields."""
        return WreqHeaders(self._fields)

    async def body(self, most: int, on_bytes: OnBytes | None) -> bytes:
        """Return the decompressed body; raises TooLarge when it has more than `most` bytes."""
        size = self._answer.content_length  # None where wreq decompresses, whatever was announced
        if size is not None and size > most:
            raise TooLarge(f"{self._target.host} announces {size:,} bytes; the limit is {most:,}")
        # wreq undoes what was offered and takes the header away; one that is left was sent unasked.
        unasked = self.all("content-encoding")
        left = decoders(unasked) if unasked else []
        try:
            if size is None or left:
                return await self._gather(Unpacked(left, most), on_bytes)
            if on_bytes:
                await on_bytes(size)
            return bytes(await self._answer.bytes())
        except BROKEN as exc:
            raise translated(exc, self._target) from exc

    async def _gather(self, whole: Unpacked, on_bytes: OnBytes | None) -> bytes:
        async with self._answer.stream() as stream:
            async for part in stream:
                if isinstance(part, memoryview):  # else trailers
                    grown = whole.feed(part)
                    if on_bytes:
                        await on_bytes(grown)
        return whole.finish()

    def drop(self) -> None:
        """Let go of the body unread."""
        del self._answer


class WreqHeaders(Headers):
    """Header fields that become text when they are looked at, for most of them never are."""

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
        """Return every value that was sent under a name, in order."""
        return [str(value, "latin-1") for value in self._map.get_all(name)]

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """The fields as they were sent, their names in lower case."""
        if self._texts is None:
            self._texts = tuple((str(name, "latin-1"), str(value, "latin-1")) for name, value in self._map)
        return self._texts


async def _got_by(proxy: wreq.Proxy, client: wreq.Client, url: str, headers: dict[str, str]) -> wreq.Response:
    try:
        return await client.get(url, headers=headers, proxy=proxy)
    except BROKEN as exc:
        # Some proxies close every connection without a word, also in the moment in which it is used again.
        if not url.startswith("http:") or not was_closed(exc):
            raise
    return await client.get(url, headers=headers, proxy=proxy)


def _most_clients() -> int:
    """Return how many hosts may have a client; their idle connections must leave files for others."""
    try:
        import resource
    except ImportError:
        return MOST_CLIENTS
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CLIENTS if files == resource.RLIM_INFINITY else min(MOST_CLIENTS, files // 4)


def _client_options(limits: Limits, user_agent: str, authorities: Path | None) -> dict[str, Any]:
    # Servers that are a little wrong are common; what browsers forgive is forgiven here.
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
        "pool_max_size": _most_clients(),  # hosts; those whose URLs spell an address share a client
        "no_proxy": True,  # none but that of a request
        "tls_verify": authorities or True,
        "gzip": True,
        "brotli": True,
        "zstd": True,
        "deflate": False,  # wreq reads only one of its two spellings
    }
