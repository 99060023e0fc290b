"""The interface of every fetcher: one request, one response."""

from typing import Protocol

from shoal.core.http import Request, Response


class Fetcher(Protocol):
    """Fetches pages. It never retries, and never waits for a host's rate limit."""

    async def fetch(self, request: Request) -> Response:
        """Return the response, whatever its status; raises FetchError, or what `on_hop` raises."""
        ...

    async def close(self) -> None:
        """Close every connection; a fetch in progress may fail."""
        ...
