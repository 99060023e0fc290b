"""The kinds of sources that are opened by an address: sitemaps, feeds, and those of installed packages."""

import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from hashlib import blake2b

import msgspec

from shoal.core.errors import QueueError
from shoal.core.http import Headers, Request, Response
from shoal.core.model import Task
from shoal.core.secrets import secret_headers
from shoal.discover.sitemaps.walk import MAX_BYTES, Sitemaps
from shoal.discover.source import OpenSource, Source, SourceOptions
from shoal.discover.webfeeds import WebFeeds
from shoal.fetch.cache.rules import storable, validators
from shoal.fetch.contract import Fetcher, Limits
from shoal.fleet.sources.seeds import GivenTasks, Seeds, iterate_source
from shoal.queue.contract import SharedNotes
from shoal.registry.registry import Registry
from shoal.registry.signatures import check_call
from shoal.scrape.page import Page
from shoal.scrape.scraper import Scraper
from shoal.worker.fetchers.chain import open_fetcher
from shoal.worker.process.main import USER_AGENT

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


SITEMAP, FEED = "sitemap", "feed"


def _open_sitemaps(addresses: Sequence[str], options: SourceOptions) -> Source:
    return Sitemaps(
        options.fetch,
        *addresses,
        step=options.step,
        since=options.since,
        hosts=options.hosts,
        delay=options.delay,
        rewrite=options.rewrite,
    )


def _open_feeds(addresses: Sequence[str], options: SourceOptions) -> Source:
    return WebFeeds(addresses, options, lambda response: Page(response, Task(url=response.url)).feed())


def _read_opener(value: object) -> OpenSource:
    check_call(value, 2, "it must be a function that takes addresses and SourceOptions, and yields tasks")
    opener: OpenSource = value  # type: ignore[assignment]
    return opener


SOURCES: Registry[OpenSource] = Registry(
    "shoal.sources", "source", {SITEMAP: lambda: _open_sitemaps, FEED: lambda: _open_feeds}, _read_opener
)


@asynccontextmanager
async def open_sources(
    seeds: Seeds, scraper: Scraper, step: str, notes: SharedNotes | None = None
) -> AsyncIterator[list[Source]]:
    """Yield the sources of a run that are opened by an address; their connections are closed at the end.

    With `notes`, a feed that has not changed since an earlier run is not sent again.
    """
    settings = scraper.settings
    network = _Network(scraper)
    fetch_feed = FeedCache(notes, scraper.name, network.fetch).fetch if notes else network.fetch

    def rewrite(url: str, origin: str) -> str | None:
        has_secrets = bool(secret_headers(settings.headers_for(url)))
        return settings.scope.secure_url(url, origin=origin) if has_secrets else url

    def opened() -> Iterator[Source]:
        for kind, addresses, hosts in seeds.by_kind():
            options = SourceOptions(
                step=step,
                fetch=fetch_feed if kind == FEED else network.fetch,
                since=seeds.since,
                hosts=hosts,
                delay=settings.delay,
                rewrite=rewrite,
            )
            opener = SOURCES.find(kind)
            if opener and kind in SOURCES.builtin:
                yield opener(addresses, options)  # type: ignore[misc]
            elif opener:
                tasks = iterate_source(kind, opener, addresses, options)
                yield GivenTasks(kind, tasks, step, scraper.steps)

    try:
        yield list(opened())
    finally:
        await network.close()


class _Network:
    """The fetcher of sources, opened with the first request: not every source needs one."""

    def __init__(self, scraper: Scraper) -> None:
        self._settings = scraper.settings
        self._fetcher: Fetcher | None = None

    async def fetch(self, request: Request) -> Response:
        if self._fetcher is None:
            agent = self._settings.user_agent or USER_AGENT
            limits = Limits(max_body=MAX_BYTES)
            self._fetcher = await open_fetcher(self._settings, user_agent=agent, limits=limits)
        return await self._fetcher.fetch(request)

    async def close(self) -> None:
        if self._fetcher:
            await self._fetcher.close()
