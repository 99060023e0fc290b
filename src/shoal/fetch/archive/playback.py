"""A fetcher that only plays back a recording: it has no access to the network."""

import asyncio
from collections.abc import Callable

from shoal.core.errors import InvalidUrl, NotRecorded, OutOfScope, TooLarge
from shoal.core.http import BodySink, Hop, Request, Response
from shoal.core.request_options import after_redirect, asked_for
from shoal.core.text import shorten
from shoal.core.urls import canonical
from shoal.fetch.contract import DEFAULT_LIMITS, Limits
from shoal.fetch.http.client import REDIRECTS, redirect_target

ROBOTS = "/robots.txt"

Find = Callable[[str], Response | None]


class PlaybackFetcher:
    """Responds from a recording; `find` returns the response to a canonical URL, or to a POST to it."""

    def __init__(self, find: Find, *, record: str, limits: Limits = DEFAULT_LIMITS) -> None:
        self._find, self._record, self._limits = find, record, limits

    async def fetch(self, request: Request) -> Response:
        """Return the recorded response, whatever its status; raises NotRecorded."""
        url, hops, post, method = _canonical(request.url), list[Hop](), request.post, request.method
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


def _canonical(url: str) -> str:
    try:
        return canonical(url)
    except InvalidUrl as exc:
        raise OutOfScope(str(exc)) from exc
