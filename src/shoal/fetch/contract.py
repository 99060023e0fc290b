"""What every way to fetch a page does: one question, one answer."""

from typing import Protocol

from shoal.core.exchange import Request, Response


class Fetcher(Protocol):
    """Brings pages home. It never retries, and never waits for a host's sake."""

    async def fetch(self, request: Request) -> Response:
        """Return the answer, whatever its status; raises FetchError, or what `on_hop` raises."""
        ...

    async def close(self) -> None:
        """Let go of every connection; a fetch that is under way may fail."""
        ...
