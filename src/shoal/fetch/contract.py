"""The interface of every fetcher: one request, one response."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from shoal.core.http import Request, Response
from shoal.fetch.egress import Egress
from shoal.fetch.response_limits import Limits

if TYPE_CHECKING:  # the settings are above this package
    from shoal.scrape.settings.scraper import ScraperSettings


class Fetcher(Protocol):
    """Fetches pages. It never retries, and never waits for a host's rate limit."""

    async def fetch(self, request: Request) -> Response:
        """Return the response, whatever its status; raises FetchError, or what `on_hop` raises."""
        ...

    async def close(self) -> None:
        """Close every connection; a fetch in progress may fail."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherOptions:
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
