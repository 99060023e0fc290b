"""Feeds that were read before, kept in the queue: one that has not changed is not sent again."""

import zlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from hashlib import blake2b

import msgspec

from shoal.core.errors import QueueError
from shoal.core.http import Headers, Request, Response
from shoal.fetch.cache.rules import storable, validators
from shoal.queue.contract import SharedNotes

TOPIC = "feeds read"
FEED_TTL = timedelta(days=30)
MAX_STORED = 1 << 20  # bytes of a compressed feed; a larger one is fetched whole each time
UNCHANGED = 304

Fetch = Callable[[Request], Awaitable[Response]]


class StoredFeed(msgspec.Struct, frozen=True, kw_only=True):
    """A feed, and the headers by which its host tells whether it has changed."""

    url: str
    headers: list[tuple[str, str]]
    body: bytes  # compressed
    conditions: dict[str, str]


class FeedCache:
    """Fetches feeds for the runs of one scraper; what the host says is unchanged comes from the queue."""

    def __init__(self, queue: SharedNotes, scraper: str, fetch: Fetch) -> None:
        self._queue, self._scraper, self._fetch = queue, scraper, fetch

    async def fetch(self, request: Request) -> Response:
        """Return the response, whatever its status; raises FetchError."""
        key = blake2b(f"{self._scraper} {request.url}".encode(), digest_size=20).hexdigest()
        stored = await self._find(key)
        if stored is None:
            response = await self._fetch(request)
        else:
            response = await self._fetch(replace(request, headers={**request.headers, **stored.conditions}))
            if response.status == UNCHANGED:
                body = zlib.decompress(stored.body)
                return Response(url=stored.url, status=200, headers=Headers(stored.headers), body=body)
        if response.status == 200:
            await self._store(key, response)
        return response

    async def _find(self, key: str) -> StoredFeed | None:
        with suppress(QueueError, msgspec.MsgspecError):
            note = (await self._queue.notes(TOPIC, [key])).get(key)
            return _decode(note.value) if note else None
        return None

    async def _store(self, key: str, response: Response) -> None:
        conditions, body = validators(response.headers), zlib.compress(response.body, 6)
        if not conditions or len(body) > MAX_STORED:
            return
        stored = StoredFeed(
            url=response.url, headers=storable(response.headers), body=body, conditions=conditions
        )
        with suppress(QueueError):
            await self._queue.write_notes(TOPIC, {key: _encode(stored)}, ttl=FEED_TTL)


_decode = msgspec.msgpack.Decoder(StoredFeed).decode
_encode = msgspec.msgpack.Encoder().encode
