"""Web feeds as a source: the pages that RSS, Atom and JSON feeds list."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC
from typing import Any

from shoal.core.errors import FetchError, InvalidUrl, ParseFailed
from shoal.core.http import Response
from shoal.core.model import MINUTE, Task
from shoal.core.patterns import glob
from shoal.core.text import shorten
from shoal.core.urls import canonical, host_of, site_of
from shoal.discover.sitemaps import report as why
from shoal.discover.sitemaps.fetch import SitemapFetcher, Sleep, reason_of
from shoal.discover.sitemaps.parse import latest_time
from shoal.discover.sitemaps.report import SitemapReport
from shoal.discover.source import Found, Refusal, SourceOptions, make_refusal, shown

ReadFeed = Callable[[Response], Mapping[str, Any]]

# The fields of an entry that become payload, and their longest text.
PAYLOAD = {"id": 2_048, "title": 300, "published": 40, "updated": 40, "author": 300}
OTHER_HOST = "it is on another site than its feed; allow that host with --feed-hosts if you mean it"
NO_LINK = "the entry has no link"


class WebFeeds:
    """A source: the entries of feeds, with what the feed says of each as payload.

    Entries on another site than their feed are refused, unless `hosts` has a glob for it. With `since`,
    entries that are older are skipped; those without a date never are. `report` has the counts and problems.
    """

    def __init__(
        self,
        feeds: Sequence[str],
        options: SourceOptions,
        read: ReadFeed,
        *,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.report = SitemapReport(source="feed")
        self._feeds = list(dict.fromkeys(canonical(feed) for feed in feeds))
        self._options, self._read = options, read
        since = options.since
        self._since = since.replace(tzinfo=since.tzinfo or UTC) if since else None
        self._hosts = [glob(host.lower()) for host in options.hosts]
        self._fetcher = SitemapFetcher(options.fetch, delay=options.delay, timeout=MINUTE, sleep=sleep)
        self._position = ("feeds", 0)

    @property
    def where(self) -> str:
        """The current feed and the number of its last entry."""
        url, number = self._position
        return f"{url} entry {number}"

    async def __aiter__(self) -> AsyncIterator[Found]:
        for number, feed in enumerate(self._feeds, 1):
            self.report.begin_file(len(self._feeds) - number)
            self._position = (shown(feed), 0)
            try:
                response = await self._fetcher.get(feed)
                # In a thread: a feed of some megabytes takes a second.
                found = await asyncio.to_thread(self._read, response)
            except (FetchError, ParseFailed) as error:
                self.report.note(shown(feed), reason_of(error))
                continue
            self.report.files += 1
            sites = {_site(host_of(url)) for url in (feed, response.url)}
            for number, entry in enumerate(found["entries"], 1):
                self._position = (shown(feed), number)
                if (task := self._read_entry(entry, feed, sites)) is not None:
                    self.report.urls += isinstance(task, Task)
                    yield task

    def _read_entry(self, entry: Mapping[str, Any], feed: str, sites: set[str]) -> Found | None:
        """Return the task or refusal of an entry; None for one that is too old."""
        date = entry["updated"] or entry["published"]
        if self._since and date and (moment := latest_time(date)) and moment < self._since:
            self.report.skipped[why.OLDER] += 1
            return None
        if not entry["link"]:
            self.report.skipped[why.NO_ADDRESS] += 1
            return Refusal(self.where, shown(entry["title"] or entry["id"] or ""), NO_LINK)
        try:
            url = canonical(entry["link"])
            host = host_of(url)
        except InvalidUrl as error:
            self.report.skipped[why.INVALID] += 1
            return make_refusal(self.where, entry["link"], error)
        if _site(host) not in sites and not any(allows(host) for allows in self._hosts):
            self.report.skipped[why.OTHER_HOST] += 1
            return Refusal(self.where, shown(url), OTHER_HOST)
        target = self._options.rewrite(url, feed)
        if target is None:
            self.report.skipped[why.UNENCRYPTED] += 1
            return Refusal(self.where, shown(url), why.UNENCRYPTED)
        payload = {name: shorten(entry[name], limit) for name, limit in PAYLOAD.items() if entry[name]}
        return Task(url=target, step=self._options.step, payload=payload)


def _site(host: str) -> str:
    """Return the site of a host; names inside a network have no public suffix, but may have a `www.` too."""
    return site_of(host.removeprefix("www."))
