"""Walk sitemaps: from a site or a sitemap URL to tasks, through index files, with limits everywhere."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Collection
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec.structs import replace

from shoal.core.errors import FetchError, HttpStatus, InvalidUrl, ParseFailed, TooLarge
from shoal.core.model import MINUTE, SECOND, Task
from shoal.core.urls import bare_host, canonical, fingerprint, join, origin_of
from shoal.discover.sitemaps import report as why
from shoal.discover.sitemaps.fetch import SitemapFetcher, SitemapHosts, Sleep, reason_of
from shoal.discover.sitemaps.parse import SitemapEntry, entries_of, latest_time
from shoal.discover.sitemaps.report import SitemapReport
from shoal.discover.source import Fetch, Found, Refusal, Rewrite, make_refusal, shown

GUESSES = ("/sitemap.xml", "/sitemap_index.xml")
NO_SITEMAP = f"its robots.txt lists no sitemap, and there is none at {' or '.join(GUESSES)}"
OTHER_HOST = "it is on another host than its sitemap; allow that host if you mean it"

MAX_BYTES = 50 << 20  # of one decompressed file: the limit of the sitemap protocol
MAX_DEPTH = 10
MAX_FILES = 10_000
MAX_URLS = 50_000_000
MAX_URL = 2_048  # bytes of the URL of a file; pending files are held in memory
MAX_ROBOTS = 50  # hosts whose robots.txt is fetched to confirm a sitemap on another host


class _File(msgspec.Struct, frozen=True, kw_only=True):
    """A pending file and the hosts that it may list."""

    url: str
    hosts: frozenset[str]
    start: str  # the URL that the user typed
    depth: int = 0
    parent: "_File | None" = None
    guesses: tuple[str, ...] | None = None  # further paths to try, for a file that may not exist

    def chain(self) -> list[str]:
        """Return its URL and those of its parent index files."""
        return [self.url, *(self.parent.chain() if self.parent else ())]


class Sitemaps:
    """A source: the pages listed in sitemaps. A URL without a path means the sitemaps of that site.

    Pages of other hosts are refused, unless the robots.txt of that host lists the sitemap, or `hosts` has a
    glob for it. With `since`, pages that have not changed since then are skipped. `rewrite` returns the URL
    to fetch for a listed page, or None to skip it. `report` has the counts and problems.
    """

    def __init__(
        self,
        fetch: Fetch,
        *starts: str,
        step: str = "main",
        since: datetime | None = None,
        hosts: Collection[str] = (),
        delay: timedelta = SECOND,
        sleep: Sleep = asyncio.sleep,
        rewrite: Rewrite = lambda url, origin: url,
    ) -> None:
        self._rewrite = rewrite
        self.report = SitemapReport()
        self._starts = [canonical(start) for start in starts]
        self._since = since.replace(tzinfo=since.tzinfo or UTC) if since else None
        self._step = step
        self._fetcher = SitemapFetcher(fetch, delay=delay, timeout=MINUTE, sleep=sleep)
        self._hosts = SitemapHosts(self._fetcher, hosts, MAX_ROBOTS)
        self._pending: deque[_File] = deque()
        self._seen: set[bytes] = set()
        self._position = ("sitemaps", 0)

    @property
    def where(self) -> str:
        """The current sitemap and the number of its last entry."""
        url, number = self._position
        return f"{url} entry {number}"

    async def __aiter__(self) -> AsyncIterator[Found]:
        for start in self._starts:
            await self._begin(start)
        while self._pending:
            file = self._pending.popleft()
            self.report.begin_file(len(self._pending))
            async for found in self._read(file):
                yield found
                self.report.urls += isinstance(found, Task)
                if self.report.urls >= MAX_URLS:
                    self._note(file, f"the limit of {MAX_URLS:,} URLs is reached; the walk ends")
                    return

    async def _begin(self, start: str) -> None:
        """Add a sitemap, or the sitemaps of a site, to the pending files."""
        hosts = frozenset({bare_host(start)})
        site = origin_of(start)
        if start != f"{site}/":
            self._add(_File(url=start, hosts=hosts, start=start))
            return
        listed = await self._fetch_listed(site)
        for url in listed:
            self._add(_File(url=url, hosts=hosts | {bare_host(url)}, start=start))
        if not listed:
            self._add(_File(url=site + GUESSES[0], hosts=hosts, start=start, guesses=GUESSES[1:]))

    async def _fetch_listed(self, site: str) -> list[str]:
        try:
            return await self._hosts.sitemaps_of(f"{site}/")
        except FetchError as error:
            if not (isinstance(error, HttpStatus) and 400 <= error.status <= 499):  # 4xx: it has none
                self.report.note(f"{site}/robots.txt", reason_of(error))
            return []

    async def _read(self, file: _File) -> AsyncIterator[Found]:
        """Yield the results of a file; its problems are recorded and do not stop the walk."""
        self._position = (file.url, 0)
        try:
            response = await self._fetcher.get(file.url)
            if (final_file := self._after_redirects(file, response.url)) is None:
                return
            for batch in entries_of(response.body, MAX_BYTES):
                for number, entry in enumerate(batch, self._position[1] + 1):
                    self._position = (file.url, number)
                    if (found := await self._read_entry(final_file, entry)) is not None:
                        yield found
                await asyncio.sleep(0)  # a large file must not block the event loop
        except (ParseFailed, TooLarge) as error:
            number = self._position[1]
            self._fail(file, f"{error}; its first {number:,} entries were read" if number else str(error))
        except FetchError as error:
            self._fail(file, reason_of(error))
            return
        self.report.files += 1

    def _after_redirects(self, file: _File, url: str) -> _File | None:
        """Return a file as known after redirects; None if the final URL was already read."""
        final = canonical(url)
        if final == file.url:
            return file
        if not self._is_new(final):
            self._note(file, f"it redirects to {shown(final)}, which was already read")
            return None
        # The user who typed a URL also means where it redirects to; an index cannot add hosts that way.
        return replace(file, hosts=file.hosts | {bare_host(final)}) if file.parent is None else file

    async def _read_entry(self, file: _File, entry: SitemapEntry) -> Found | None:
        """Return the task or refusal of an entry; None for a skipped entry or a sitemap."""
        if self._since and entry.lastmod and (moment := latest_time(entry.lastmod)) and moment < self._since:
            self.report.skipped[why.OLDER_FILE if entry.is_sitemap else why.OLDER] += 1
            return None
        if not entry.loc:
            self.report.skipped[why.NO_ADDRESS] += 1
            return Refusal(self.where, "", "the entry has no URL")
        if not entry.has_url:
            self.report.skipped[why.INVALID] += 1
            return Refusal(self.where, shown(entry.loc), "it is neither a URL nor a path that begins with /")
        try:
            url = join(file.url, entry.loc)
        except InvalidUrl as error:
            self.report.skipped[why.INVALID] += 1
            return make_refusal(self.where, entry.loc, error)
        if bare_host(url) not in file.hosts and not await self._hosts.allow(url, file.chain()):
            self.report.skipped[why.OTHER_HOST] += 1
            return Refusal(self.where, shown(url), OTHER_HOST)
        if not entry.is_sitemap:
            target = self._rewrite(url, file.start)
            if target is None:
                self.report.skipped[why.UNENCRYPTED] += 1
                return Refusal(self.where, shown(url), why.UNENCRYPTED)
            return Task(url=target, step=self._step, payload=entry.payload())
        self._add_below(file, url)
        return None

    def _add_below(self, file: _File, url: str) -> None:
        if url in file.chain():
            self.report.skipped[why.LOOP] += 1
            self._note(file, f"it lists {shown(url)}, one of its parents: a loop")
        elif file.depth >= MAX_DEPTH:
            self.report.skipped[why.TOO_DEEP] += 1
            self._note(file, f"it is {file.depth} index files deep; the sitemaps it lists are not read")
        else:
            hosts, depth = file.hosts | {bare_host(url)}, file.depth + 1
            self._add(_File(url=url, hosts=hosts, start=file.start, depth=depth, parent=file))

    def _add(self, file: _File) -> None:
        """Add a file to the pending ones, unless it is known or there are too many."""
        if len(file.url) > MAX_URL:
            self.report.skipped[why.INVALID] += 1
            self._note(file, f"the URL of a sitemap may have at most {MAX_URL:,} bytes")
        elif len(self._seen) >= MAX_FILES:
            self.report.skipped[why.TOO_MANY] += 1
            self._note(file.parent or file, f"the limit of {MAX_FILES:,} files is reached")
        elif self._is_new(file.url):
            self._pending.append(file)
        else:
            self.report.skipped[why.TWICE] += 1

    def _is_new(self, url: str) -> bool:
        key = fingerprint(url)
        new = key not in self._seen
        self._seen.add(key)
        return new

    def _fail(self, file: _File, reason: str) -> None:
        if file.guesses is None:
            self._note(file, reason)
        elif file.guesses:
            site = origin_of(file.url)
            self._add(replace(file, url=site + file.guesses[0], guesses=file.guesses[1:]))
        else:
            self.report.note(origin_of(file.url), NO_SITEMAP)

    def _note(self, file: _File, reason: str) -> None:
        self.report.note(shown(file.url), reason)
