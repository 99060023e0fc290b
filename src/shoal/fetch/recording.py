"""A fetcher whose exchanges are written down as they happen."""

from typing import Protocol

from shoal.core.exchange import Request, Response
from shoal.fetch.contract import Fetcher


class Recorder(Protocol):
    """Where exchanges are written down."""

    async def write(self, request: Request, response: Response) -> None:
        """Write an exchange; it is safe from the end of this process when this returns."""
        ...

    async def close(self) -> None:
        """Finish the record."""
        ...


class RecordingFetcher:
    """Hands out an answer once it is written down, so that what has results is in the record."""

    def __init__(self, fetcher: Fetcher, recorder: Recorder) -> None:
        self._fetcher, self._recorder = fetcher, recorder

    async def fetch(self, request: Request) -> Response:
        """Return the answer, whatever its status; raises as the fetcher and the recorder do."""
        response = await self._fetcher.fetch(request)
        await self._recorder.write(request, response)
        return response

    async def close(self) -> None:
        """Let go of every connection, and finish the record."""
        await self._fetcher.close()
        await self._recorder.close()
