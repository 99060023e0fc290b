"""A fetcher that records every exchange."""

from typing import Protocol

from shoal.core.http import Request, Response
from shoal.fetch.contract import Fetcher


class Recorder(Protocol):
    """Where exchanges are recorded."""

    async def write(self, request: Request, response: Response) -> None:
        """Write an exchange; it survives the end of this process once this returns."""
        ...

    async def close(self) -> None:
        """Finish the recording."""
        ...


class RecordingFetcher:
    """Returns a response once it is recorded, so that every result has its page in the recording."""

    def __init__(self, fetcher: Fetcher, recorder: Recorder) -> None:
        self._fetcher, self._recorder = fetcher, recorder

    async def fetch(self, request: Request) -> Response:
        """Return the response, whatever its status; raises as the fetcher and the recorder do."""
        response = await self._fetcher.fetch(request)
        # The body of a download goes to the folder of files, and is not kept here.
        if not request.save or response.body:
            await self._recorder.write(request, response)
        return response

    async def close(self) -> None:
        """Close every connection, and finish the recording."""
        await self._fetcher.close()
        await self._recorder.close()
