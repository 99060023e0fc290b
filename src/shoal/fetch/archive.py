"""Fetchers that record every exchange, and that only play back a recording, without the network."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from shoal.core.errors import NotRecorded, TooLarge
from shoal.core.http import BodySink, Hop, Request, Response
from shoal.core.request_options import after_redirect, asked_for
from shoal.core.text import shorten
from shoal.fetch.contract import DEFAULT_LIMITS, Fetcher, Limits
from shoal.fetch.egress import read_url
from shoal.fetch.http.client import REDIRECTS, redirect_target

ROBOTS = "/robots.txt"

Find = Callable[[str], Response | None]


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


class PlaybackFetcher:
    """Responds from a recording; `find` returns the response to a canonical URL, or to a POST to it."""

    def __init__(self, find: Find, *, record: str, limits: Limits = DEFAULT_LIMITS) -> None:
        self._find, self._record, self._limits = find, record, limits

    async def fetch(self, request: Request) -> Response:
        """Return the recorded response, whatever its status; raises NotRecorded."""
        url, hops, post, method = read_url(request.url)[0], list[Hop](), request.post, request.method
        while True:
            recorded = await self._answer(url, post, method)
            location = recorded.headers.get("location")
            if recorded.status not in REDIRECTS or location is None:
                break
            hops.append(Hop(url=url, status=recorded.status, headers=recorded.headers))
            method = after_redirect(method, recorded.status)
            post = None if method == "GET" else post
            url = redirect_target(url, location, len(hops), self._limits)
            if request.on_hop:
                await request.on_hop(url)
        if request.on_bytes:
            await request.on_bytes(len(recorded.body))
        body = await _pass_on(recorded, request.save) if request.save else recorded.body
        return Response(
            url=url,
            status=recorded.status,
            headers=recorded.headers,
            body=body,
            redirects=tuple(hop.url for hop in hops),
            hops=tuple(hops),
            from_cache=True,
        )

    async def close(self) -> None:
        """Do nothing: no connection was made."""

    async def _answer(self, url: str, post: bytes | None, method: str) -> Response:
        found = await asyncio.to_thread(self._find, asked_for(url, post, method))
        if found is not None:
            return found
        if url.endswith(ROBOTS) and url.count("/") == 3:
            # A robots.txt that was not recorded allows everything: no host is contacted.
            return Response(url=url, status=404)
        raise NotRecorded(url, self._record)


async def _pass_on(recorded: Response, sink: BodySink) -> bytes:
    """Pass the body of a recorded file on to a download; return the one of another response."""
    limit = sink.begin(recorded.status, recorded.headers)
    if limit is None:
        return recorded.body
    if len(recorded.body) > limit:
        raise TooLarge(f"{shorten(recorded.url)} has {len(recorded.body):,} bytes; the limit is {limit:,}")
    await sink.write(recorded.body)
    return b""
