"""What a run begins with: the tasks of all sources that were named, routed, and the refused ones reported."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from shoal.core.model import Task
from shoal.discover.axes import Axis
from shoal.discover.combine import combine
from shoal.discover.feed import Feed, OnRefusal
from shoal.discover.files import UrlFile
from shoal.discover.previous import DeadTasks, ItemTasks
from shoal.discover.routing import Routes
from shoal.discover.sitemap_report import SitemapReport
from shoal.discover.sitemaps import SitemapLimits, Sitemaps
from shoal.discover.source import Found, Source, shown
from shoal.discover.table import DEFAULT_COLUMNS, Columns
from shoal.fetch.egress import Egress
from shoal.fetch.http import HttpFetcher
from shoal.fetch.limits import Limits
from shoal.queue.contract import Queue
from shoal.scrape.scraper import Scraper
from shoal.worker.child import USER_AGENT

OnReport = Callable[[SitemapReport], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeds:
    """The sources of a run, as an operator named them."""

    urls: Sequence[str] = ()
    file: str | None = None
    format: str | None = None
    columns: Columns = DEFAULT_COLUMNS
    sitemaps: Sequence[str] = ()
    since: datetime | None = None
    template: str | None = None
    axes: Sequence[str] = ()  # each NAME=FILE or NAME:a,b,c
    partition: str | None = None
    from_run: str | None = None
    from_items: str | None = None  # STEP or STEP.FIELD; without it, the dead letters of the run
    step: str | None = None

    def __bool__(self) -> bool:
        return any((self.urls, self.file, self.sitemaps, self.template, self.axes, self.from_run))

    @asynccontextmanager
    async def feed(
        self, queue: Queue, scraper: Scraper, routes: Routes, on_refusal: OnRefusal, on_report: OnReport
    ) -> AsyncIterator[Feed]:
        """Yield the tasks of all sources as one stream; what cannot become a task goes to `on_refusal`."""
        step = self.step or scraper.first.name
        sources: list[Source] = [Typed(self.urls, step)] if self.urls else []
        sources += self._local(step)
        if self.from_run:
            sources.append(self._previous(queue, self.from_run, step))
        async with _fetcher(scraper) as fetcher:
            walk = self._walk(fetcher, scraper, step)
            sources += [walk] if walk else []
            yield Feed(*sources, routes=routes, steps=scraper.steps, on_refusal=on_refusal)
        if walk:
            on_report(walk.report)

    def _walk(self, fetcher: HttpFetcher, scraper: Scraper, step: str) -> Sitemaps | None:
        if not self.sitemaps:
            return None
        delay = scraper.settings.delay
        return Sitemaps(fetcher.fetch, *self.sitemaps, step=step, since=self.since, delay=delay)

    def _local(self, step: str) -> Iterator[Source]:
        if self.file:
            yield UrlFile(self.file, step=step, format=self.format, columns=self.columns)
        if self.template or self.axes:
            axes = [Axis.read(text) for text in self.axes]
            yield combine(self.template, axes, step=step, partition=self.partition)

    def _previous(self, queue: Queue, run_id: str, step: str) -> DeadTasks | ItemTasks:
        if self.from_items is None:
            return DeadTasks(queue.dead(run_id))
        source, _, field = self.from_items.partition(".")
        return ItemTasks(queue.items(run_id, step=source), step=step, field=field or None)


class Typed:
    """A source: URLs that were typed."""

    def __init__(self, urls: Sequence[str], step: str) -> None:
        self._urls, self._step = urls, step
        self.where = "--url"

    def __iter__(self) -> Iterator[Found]:
        for url in self._urls:
            self.where = f"--url {shown(url)}"
            yield Task(url=url, step=self._step)


@asynccontextmanager
async def _fetcher(scraper: Scraper) -> AsyncIterator[HttpFetcher]:
    settings = scraper.settings
    fetcher = HttpFetcher(
        Limits(max_body=SitemapLimits().max_bytes),
        egress=Egress(settings.allow_private),
        user_agent=settings.user_agent or USER_AGENT,
    )
    try:
        yield fetcher
    finally:
        await fetcher.close()
