"""What a run begins with: the tasks of all sources that were named, routed, and the refused ones reported."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from shoal.core.model import Task
from shoal.discover.axes import Axis
from shoal.discover.combine import combine
from shoal.discover.files import UrlFile
from shoal.discover.previous import DeadTasks, ItemTasks
from shoal.discover.routing import Routes
from shoal.discover.sitemap_report import SitemapReport
from shoal.discover.sitemaps import SitemapLimits, Sitemaps
from shoal.discover.source import Found, Refusal, SyncSource
from shoal.discover.table import DEFAULT_COLUMNS, Columns
from shoal.fetch.egress import Egress
from shoal.fetch.http import HttpFetcher
from shoal.fetch.limits import Limits
from shoal.queue.contract import Queue
from shoal.scrape.scraper import Scraper
from shoal.worker.child import USER_AGENT

OnRefused = Callable[[Refusal], None]


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

    async def tasks(
        self,
        queue: Queue,
        scraper: Scraper,
        routes: Routes,
        on_refused: OnRefused,
        on_report: Callable[[SitemapReport], None] = lambda report: None,
    ) -> AsyncIterator[Task]:
        """Yield every task; what cannot become one goes to `on_refused` and stops nothing."""
        step = self.step or scraper.first.name
        async for found in self._found(queue, scraper, step, on_report):
            if isinstance(found, Refusal):
                on_refused(found)
            else:
                yield routes.apply(found)

    async def _found(
        self, queue: Queue, scraper: Scraper, step: str, on_report: Callable[[SitemapReport], None]
    ) -> AsyncIterator[Found]:
        for url in self.urls:
            yield Task(url=url, step=step)
        for source in self._local(step):
            for found in source:
                yield found
        if self.sitemaps:
            async with _fetcher(scraper) as fetcher:
                walk = Sitemaps(
                    fetcher.fetch, *self.sitemaps, step=step, since=self.since, delay=scraper.settings.delay
                )
                async for found in walk:
                    yield found
                on_report(walk.report)
        if self.from_run:
            async for found in self._previous(queue, self.from_run, step):
                yield found

    def _local(self, step: str) -> Iterator[SyncSource]:
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
