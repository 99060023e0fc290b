"""Sitemaps: from a site or a sitemap's URL to tasks, through index files, bounded at every turn."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from shoal.core.errors import FetchError, HttpStatus, InvalidUrl, ParseFailed, TooLarge
from shoal.core.model import MINUTE, NOTHING, SECOND, Task
from shoal.core.urls import canonical, fingerprint, join
from shoal.discover import sitemap_report as why
from shoal.discover.sitemap_entry import Entry, latest
from shoal.discover.sitemap_fetch import Fetch, Getter, Sleep
from shoal.discover.sitemap_hosts import Hosts, bare
from shoal.discover.sitemap_read import entries_of
from shoal.discover.sitemap_report import SitemapReport
from shoal.discover.sitemap_robots import origin_of
from shoal.discover.source import Found, Refusal, refused, shown

Lead = Callable[[str, str], str | None]  # of a page's URL and the one that was typed

GUESSES = ("/sitemap.xml", "/sitemap_index.xml")
NO_SITEMAP = f"its robots.txt names no sitemap, and there is none at {' or '.join(GUESSES)}"
OTHER_HOST = "it is on another host than its sitemap; allow that host if you mean it"


@dataclass(frozen=True, slots=True, kw_only=True)
class SitemapLimits:
    """How far a walk may go. A fetcher must let bodies of `max_bytes` pass for it to see them."""

    max_bytes: int = 50 << 20  # of one file, unpacked: what the protocol allows
    max_depth: int = 10
    max_files: int = 10_000
    max_urls: int = 50_000_000
    max_url: int = 2_048  # bytes of the URL of a file; what waits is kept in memory
    max_robots: int = 50  # hosts that are asked whether they know of a sitemap elsewhere


DEFAULT_LIMITS = SitemapLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A file that waits, and for which hosts it may speak."""

    url: str
    hosts: frozenset[str]
    start: str  # the URL that was typed, which led to it
    depth: int = 0
    above: "_File | None" = None
    guesses: tuple[str, ...] | None = None  # where to look instead, for one that need not be there

    def line(self) -> list[str]:
        """Return its URL and those of the index files that led to it."""
        return [self.url, *(self.above.line() if self.above else ())]


class Sitemaps:
    """A source: the pages that sitemaps name. A URL without a path means the sitemaps of that site.

    Pages of other hosts are refused, unless the robots.txt of that host names the sitemap, or `hosts` has a
    glob for it. With `since`, pages that were not changed since are left out. `lead` tells where a page that
    a sitemap names is to be asked for, None for nowhere. `report` tells how it went.
    """

    def __init__(
        self,
        fetch: Fetch,
        *starts: str,
        step: str = "main",
        since: datetime | None = None,
        hosts: Collection[str] = (),
        payload: bool = True,
        delay: timedelta = SECOND,
        limits: SitemapLimits = DEFAULT_LIMITS,
        timeout: timedelta = MINUTE,
        sleep: Sleep = asyncio.sleep,
        lead: Lead = lambda url, origin: url,
    ) -> None:
        self._lead = lead
        self.report = SitemapReport()
        self._starts = [canonical(start) for start in starts]
        self._since = since.replace(tzinfo=since.tzinfo or UTC) if since else None
        self._step, self._payload, self._limits = step, payload, limits
        self._getter = Getter(fetch, delay=delay, timeout=timeout, sleep=sleep)
        self._hosts = Hosts(self._getter, hosts, limits.max_robots)
        self._waiting: deque[_File] = deque()
        self._seen: set[bytes] = set()
        self._place = ("sitemaps", 0)

    @property
    def where(self) -> str:
        """The sitemap, and the number of the last entry in it."""
        url, number = self._place
        return f"{url} entry {number}"

    async def __aiter__(self) -> AsyncIterator[Found]:
        for start in self._starts:
            await self._begin(start)
        while self._waiting:
            file = self._waiting.popleft()
            async for found in self._read(file):
                yield found
                self.report.urls += isinstance(found, Task)
                if self.report.urls >= self._limits.max_urls:
                    self._note(file, f"the limit of {self._limits.max_urls:,} URLs is reached; it ends here")
                    return

    async def _begin(self, start: str) -> None:
        """Let a sitemap wait, or those of a site."""
        hosts = frozenset({bare(start)})
        site = origin_of(start)
        if start != f"{site}/":
            self._add(_File(url=start, hosts=hosts, start=start))
            return
        named = await self._named_by(site)
        for url in named:
            self._add(_File(url=url, hosts=hosts | {bare(url)}, start=start))
        if not named:
            self._add(_File(url=site + GUESSES[0], hosts=hosts, start=start, guesses=GUESSES[1:]))

    async def _named_by(self, site: str) -> list[str]:
        try:
            return await self._hosts.sitemaps_of(f"{site}/")
        except FetchError as error:
            if not (isinstance(error, HttpStatus) and 400 <= error.status <= 499):  # else it just has none
                self.report.note(f"{site}/robots.txt", _text(error))
            return []

    async def _read(self, file: _File) -> AsyncIterator[Found]:
        """Yield what a file holds; what is wrong with it is noted, and ends nothing else."""
        self._place = (file.url, 0)
        try:
            response = await self._getter.get(file.url)
            if (arrived := self._arrived(file, response.url)) is None:
                return
            for batch in entries_of(response.body, self._limits.max_bytes):
                for number, entry in enumerate(batch, self._place[1] + 1):
                    self._place = (file.url, number)
                    if (found := await self._judged(arrived, entry)) is not None:
                        yield found
                await asyncio.sleep(0)  # a large file must not hold up the loop
        except (ParseFailed, TooLarge) as error:
            self._fail(file, f"{error}{self._so_far()}")
        except FetchError as error:
            self._fail(file, _text(error))
            return
        self.report.files += 1

    def _so_far(self) -> str:
        number = self._place[1]
        return f"; its first {number:,} entries were read" if number else ""

    def _arrived(self, file: _File, url: str) -> _File | None:
        """Return a file as it is known after its redirects; None if that one was read already."""
        final = canonical(url)
        if final == file.url:
            return file
        if not self._is_new(final):
            self._note(file, f"it leads to {shown(final)}, which was read already")
            return None
        # Where a page that was typed in leads is meant too; an index cannot choose hosts in that way.
        return replace(file, hosts=file.hosts | {bare(final)}) if file.above is None else file

    async def _judged(self, file: _File, entry: Entry) -> Found | None:
        """Return the task or the refusal that an entry becomes; None where it is neither."""
        if self._since and entry.lastmod and (moment := latest(entry.lastmod)) and moment < self._since:
            self.report.skipped[why.OLDER_FILE if entry.is_sitemap else why.OLDER] += 1
            return None
        if not entry.loc:
            self.report.skipped[why.NO_ADDRESS] += 1
            return Refusal(self.where, "", "the entry has no address")
        if not entry.has_address:
            self.report.skipped[why.INVALID] += 1
            return Refusal(self.where, shown(entry.loc), "it is neither a URL nor a path that begins with /")
        try:
            url = join(file.url, entry.loc)
        except InvalidUrl as error:
            self.report.skipped[why.INVALID] += 1
            return refused(self.where, entry.loc, error)
        if bare(url) not in file.hosts and not await self._hosts.allow(url, file.line()):
            self.report.skipped[why.OTHER_HOST] += 1
            return Refusal(self.where, shown(url), OTHER_HOST)
        if not entry.is_sitemap:
            led = self._lead(url, file.start)
            if led is None:
                self.report.skipped[why.UNENCRYPTED] += 1
                return Refusal(self.where, shown(url), why.UNENCRYPTED)
            return Task(url=led, step=self._step, payload=entry.payload() if self._payload else NOTHING)
        self._add_below(file, url)
        return None

    def _add_below(self, file: _File, url: str) -> None:
        if url in file.line():
            self.report.skipped[why.LOOP] += 1
            self._note(file, f"it names {shown(url)}, which led to it: a loop")
        elif file.depth >= self._limits.max_depth:
            self.report.skipped[why.TOO_DEEP] += 1
            self._note(file, f"it lies {file.depth} index files deep; what it names is not read")
        else:
            self._add(
                replace(
                    file,
                    url=url,
                    hosts=file.hosts | {bare(url)},
                    depth=file.depth + 1,
                    above=file,
                    guesses=None,
                )
            )

    def _add(self, file: _File) -> None:
        """Let a file wait, unless it did already or there are too many."""
        if len(file.url) > self._limits.max_url:
            self.report.skipped[why.INVALID] += 1
            self._note(file, f"the URL of a sitemap may have {self._limits.max_url:,} bytes")
        elif len(self._seen) >= self._limits.max_files:
            self.report.skipped[why.TOO_MANY] += 1
            self._note(file.above or file, f"the limit of {self._limits.max_files:,} files is reached")
        elif self._is_new(file.url):
            self._waiting.append(file)
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


def _text(error: FetchError) -> str:
    return str(error) if isinstance(error, HttpStatus) else f"{type(error).__name__}: {error}"
