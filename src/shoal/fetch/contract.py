"""The interface of every fetcher: one request, one response."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

import msgspec

from shoal.core.http import Request, Response
from shoal.fetch.egress import Egress

if TYPE_CHECKING:
    from shoal.fetch.proxies.health import ProxyHealth
    from shoal.scrape.settings.scraper import ScraperSettings


KIB, MIB = 1 << 10, 1 << 20

_current: ContextVar["list[ProxyHealth] | None"] = ContextVar("the proxy of this task", default=None)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one fetch; sizes in bytes. The timeout is part of the request."""

    max_body: int = 32 * MIB  # after decompression
    max_header_bytes: int = 256 * KIB
    max_header_count: int = 1_000
    max_redirects: int = 10


DEFAULT_LIMITS = Limits()


def begin_task() -> None:
    """Use one proxy for all requests from here on, in this asyncio task and those it creates."""
    _current.set([])


def current() -> "list[ProxyHealth] | None":
    """Return the list that holds the proxy of this task; None outside of a task."""
    return _current.get()


class Fetcher(Protocol):
    """Fetches pages. It never retries, and never waits for a host's rate limit."""

    async def fetch(self, request: Request) -> Response:
        """Return the response, whatever its status; raises FetchError, or what `on_hop` raises."""
        ...

    async def close(self) -> None:
        """Close every connection; a fetch in progress may fail."""
        ...


class FetcherOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a fetcher is opened with.

    `http` is the run's HTTP fetcher, for a fetcher that changes requests or responses. One that opens
    connections itself connects only to what `egress` admits.
    """

    http: Fetcher
    egress: "Egress"
    limits: Limits
    user_agent: str
    settings: "ScraperSettings"
    once: bool = False  # some tasks are attempted once at most


OpenFetcher = Callable[[FetcherOptions], Fetcher]
