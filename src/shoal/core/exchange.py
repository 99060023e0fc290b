"""One exchange with a host: what is asked, and what came back."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

from shoal.core.model import MINUTE, NOTHING, ZERO

OnHop = Callable[[str], Awaitable[None]]
OnBytes = Callable[[int], Awaitable[None]]
OnAsk = Callable[[], None]


class Headers(Mapping[str, str]):
    """The header fields of a response: names in any case, the first value of each."""

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
        """Return every value that was sent under a name, in order."""
        wanted = name.lower()
        return [value for key, value in self._fields if key.lower() == wanted]

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """The fields as they were sent."""
        return self._fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way out to the network that is not a direct connection: a proxy, or Tor.

    `name` may be read by anybody; `url` holds credentials and is shown nowhere. Its scheme is http, https or
    socks5h, so that names are resolved at the other end.
    """

    name: str
    url: str = field(repr=False)


class KeptCookie(Protocol):
    """A cookie with what its host said of it."""

    @property
    def name(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def secure(self) -> bool: ...
    @property
    def http_only(self) -> bool: ...
    @property
    def same_site(self) -> str: ...


class Cookies(Protocol):
    """What hosts want to hear again."""

    def fitting(self, url: str, host: str) -> Sequence[KeptCookie]: ...
    def header(self, url: str, host: str) -> str | None: ...
    def keep(self, url: str, host: str, lines: Iterable[str]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Guise:
    """Who a host believes that it talks to: what belongs to one visitor, and is shared with no other.

    `profile` names the browser whose TLS and headers are worn.
    """

    key: str
    cookies: Cookies = field(repr=False)
    profile: str | None = None


class Live(Protocol):
    """A page that is open in a browser, until it is let go."""

    async def evaluate(self, script: str) -> Any: ...
    async def wait_for(self, selector: str, timeout: timedelta | float | None = None) -> None: ...
    async def click(self, selector: str) -> None: ...
    async def fill(self, selector: str, text: str) -> None: ...
    async def html(self) -> str: ...
    async def screenshot(self, path: str | Path | None = None, *, full: bool = False) -> bytes: ...
    async def cookies(self) -> list[dict[str, Any]]: ...
    def let_go(self) -> None: ...


OnOpen = Callable[[Live], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked of a host, by which way, and as whom.

    `on_hop` is awaited with every further URL that a redirect leads to, before it is asked; what it raises
    ends the fetch. `on_bytes` is awaited with the number of bytes that a body has or has grown by, and holds
    up the reading of more until it returns. `post` is the body of a POST, which is sent once.
    `on_ask` is called by a fetcher that had to wait for something else first, just before it asks the host;
    what it raises ends the fetch. `render` asks for the page as a browser shows it,
    and is told of every page that is opened for it. `once` says that the task must not go back to the queue
    after its host was asked.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    timeout: timedelta = MINUTE
    on_hop: OnHop | None = None
    on_bytes: OnBytes | None = None
    way: Way | None = None
    guise: Guise | None = None
    post: bytes | None = field(default=None, repr=False)
    on_ask: OnAsk | None = None
    render: OnOpen | None = None
    once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """An answer that led elsewhere."""

    url: str
    status: int
    headers: Headers = field(default_factory=Headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What came back, decompressed; `url` is where the last redirect led.

    `hops` are the answers that led there, as far as the fetcher saw them; `kept` says that the page was at
    hand, and that nobody was asked for it. `live` is the page in its browser: who asked must let it go.
    """

    url: str
    status: int
    headers: Headers = field(default_factory=Headers)
    body: bytes = b""
    redirects: tuple[str, ...] = ()
    elapsed: timedelta = ZERO
    hops: tuple[Hop, ...] = ()
    kept: bool = False
    live: Live | None = field(default=None, repr=False, compare=False)
