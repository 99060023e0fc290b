"""An HTTP request, its response, and what they carry."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from shoal.core.model import MINUTE, NOTHING, ZERO
from shoal.core.request_options import POST

OnHop = Callable[[str], Awaitable[None]]
OnBytes = Callable[[int], Awaitable[None]]
OnRequest = Callable[[], None]


MAX_TYPE = 200  # characters of a content type, which are stored in the record of a file


class Headers(Mapping[str, str]):
    """The header fields of a response: case-insensitive names, the first value of each."""

    __slots__ = ("_fields", "_first")

    def __init__(self, fields: Iterable[tuple[str, str]] = ()) -> None:
        self._fields = tuple(fields)
        self._first: dict[str, str] = {}
        for name, value in self._fields:
            self._first.setdefault(name.lower(), value)

    def __getitem__(self, name: str) -> str:
        return self._first[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._first)

    def __len__(self) -> int:
        return len(self._first)

    def __repr__(self) -> str:
        return f"Headers({list(self._fields)!r})"

    def all(self, name: str) -> list[str]:
        """Return every value of a header, in order."""
        wanted = name.lower()
        return [value for key, value in self._fields if key.lower() == wanted]

    @property
    def type(self) -> str:
        """The content type without its parameters, in lower case; empty if there is none."""
        return self.get("content-type", "").partition(";")[0].strip().lower()[:MAX_TYPE]

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """The header fields as they were received."""
        return self._fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A proxy, or Tor, instead of a direct connection.

    `name` may be shown; `url` holds credentials and is never shown. Its scheme is http, https or socks5h, so
    that the proxy resolves host names.
    """

    name: str
    url: str = field(repr=False)


class Cookie(NamedTuple):
    """A cookie and where it is sent."""

    name: str
    value: str
    path: str
    secure: bool  # set over TLS, so never sent in the clear
    until: float | None  # when it expires; None: with the jar
    http_only: bool = False  # scripts may not read it
    same_site: str = ""  # Strict, Lax or None, as CDP spells them; empty where the host does not set it
    domain: str = ""  # sent to this name and all below it; empty: only to the host that set it


class Cookies(Protocol):
    """Cookie storage."""

    def matching(self, url: str, host: str) -> Sequence[Cookie]: ...
    def header(self, url: str, host: str) -> str | None: ...
    def store(self, url: str, host: str, lines: Iterable[str]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Client identity: the cookies, headers and browser profile of one session, shared with no other.

    `profile` names the browser whose TLS fingerprint and headers are imitated.
    """

    key: str
    cookies: Cookies = field(repr=False)
    profile: str | None = None


class LiveTab(Protocol):
    """A page that is open in a browser until it is released."""

    async def evaluate(self, script: str) -> Any: ...
    async def wait_for(self, selector: str, timeout: timedelta | float | None = None) -> None: ...
    async def click(self, selector: str) -> None: ...
    async def fill(self, selector: str, text: str) -> None: ...
    async def html(self) -> str: ...
    async def screenshot(self, path: str | Path | None = None, *, full: bool = False) -> bytes: ...
    async def cookies(self) -> list[dict[str, Any]]: ...
    def release(self) -> None: ...


class BodySink(Protocol):
    """Receives a body in chunks, so that it is never whole in memory."""

    def begin(self, status: int, headers: Headers) -> int | None:
        """Begin with an empty body and return its size limit; None for a response that is read as usual.

        Raises FetchError for a response that must not be read.
        """
        ...

    async def write(self, data: bytes | memoryview) -> None:
        """Take the next chunk; it is decompressed."""
        ...


OnOpen = Callable[[LiveTab], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An HTTP request: the URL, the proxy to send it through, the client identity.

    `on_hop` is awaited with the URL of every redirect before it is requested; an exception from it ends the
    fetch. `on_bytes` is awaited with the number of bytes that a body has or has grown by; reading goes on
    only when it returns. `post` is the body of a POST or another `method`, which is sent once.
    `on_send` is called by a fetcher that had to wait for something else, just before it sends the request;
    an exception from it ends the fetch. `render` requests the page as a browser renders it, and is called
    with every tab that is opened for it. `on_sent` is called once the request may have been sent; it is given
    where the task must not return to the queue from then on, and nothing may be sent again. `fetcher` names
    the plugin that sends it, if one does. `save` takes the body of a download, whose response then has none.
    `is_foreign` says that a page chose a host that links may not lead to: it gets no session.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    timeout: timedelta = MINUTE
    on_hop: OnHop | None = None
    on_bytes: OnBytes | None = None
    proxy: Proxy | None = None
    identity: Identity | None = None
    post: bytes | None = field(default=None, repr=False)
    method: str = POST  # of a request that is no GET
    on_send: OnRequest | None = None
    render: OnOpen | None = None
    on_sent: OnRequest | None = None
    fetcher: str = ""
    save: BodySink | None = None
    is_foreign: bool = False


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A downloaded file, as items have it; `path` is relative to the folder or bucket of the files.

    A file that its host does not have, or that was refused, has an `error` instead of a path.
    """

    url: str
    path: str | None = None
    sha256: str | None = None
    size: int = 0
    type: str = ""
    status: int | None = None  # of the response; 304 if the file of an earlier run is unchanged
    error: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the record that is stored in an item."""
        fields = {name: getattr(self, name) for name in ("url", "path", "sha256", "size", "type", "status")}
        return fields if self.error is None else {**fields, "error": self.error}


class Hop(msgspec.Struct, frozen=True, kw_only=True):
    """A redirect response."""

    url: str
    status: int
    headers: Headers = msgspec.field(default_factory=Headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response, decompressed; `url` is the target of the last redirect.

    `hops` are the redirect responses before it, as far as the fetcher saw them; `from_cache` says that the
    response came from the cache, without a request. `live` is the page in its browser: the caller must
    release it.
    """

    url: str
    status: int
    headers: Headers = field(default_factory=Headers)
    body: bytes = b""
    redirects: tuple[str, ...] = ()
    elapsed: timedelta = ZERO
    hops: tuple[Hop, ...] = ()
    from_cache: bool = False
    live: LiveTab | None = field(default=None, repr=False, compare=False)
    file: StoredFile | None = None  # where the body was stored, if the request was a download
