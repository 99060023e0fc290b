"""A fetcher that knows what was recorded, and nobody else: it has no way to the network."""

import asyncio
from collections.abc import Callable

from shoal.core.ask import SENT_ON, asked_for
from shoal.core.errors import InvalidUrl, NotRecorded, OutOfScope
from shoal.core.exchange import Hop, Request, Response
from shoal.core.urls import canonical, join
from shoal.fetch.hops import REDIRECTS, as_text
from shoal.fetch.limits import DEFAULT_LIMITS, Limits

ROBOTS = "/robots.txt"

Find = Callable[[str], Response | None]


class ReplayFetcher:
    """Answers from a record; `find` returns what a canonical URL or a POST to it gave, followed or not."""

    def __init__(self, find: Find, *, record: str, limits: Limits = DEFAULT_LIMITS) -> None:
        self._find, self._record, self._limits = find, record, limits

    async def fetch(self, request: Request) -> Response:
        """Return the recorded answer, whatever its status; raises NotRecorded."""
        url, hops, post = _canonical(request.url), list[Hop](), request.post
        while True:
            answer = await self._answer(url, post)
            location = answer.headers.get("location")
            if answer.status not in REDIRECTS or location is None:
                break
            hops.append(Hop(url=url, status=answer.status, headers=answer.headers))
            post = post if answer.status in SENT_ON else None
            url = self._next(url, location, len(hops))
            if request.on_hop:
                await request.on_hop(url)
        if request.on_bytes:
            await request.on_bytes(len(answer.body))
        return Response(
            url=url,
            status=answer.status,
            headers=answer.headers,
            body=answer.body,
            redirects=tuple(hop.url for hop in hops),
            hops=tuple(hops),
            kept=True,
        )

    async def close(self) -> None:
        """Do nothing: no connection was made."""

    async def _answer(self, url: str, post: bytes | None) -> Response:
        found = await asyncio.to_thread(self._find, asked_for(url, post))
        if found is not None:
            return found
        if url.endswith(ROBOTS) and url.count("/") == 3:
            # Rules that nobody recorded bind nobody: no host is asked.
            return Response(url=url, status=404)
        raise NotRecorded(url, self._record)

    def _next(self, url: str, location: str, count: int) -> str:
        if count > self._limits.max_redirects:
            raise OutOfScope(f"The page redirects more than {self._limits.max_redirects} times")
        try:
            return join(url, as_text(location))
        except InvalidUrl as exc:
            raise OutOfScope(f"The page redirects to where nothing can be fetched. {exc}") from exc


def _canonical(url: str) -> str:
    try:
        return canonical(url)
    except InvalidUrl as exc:
        raise OutOfScope(str(exc)) from exc
