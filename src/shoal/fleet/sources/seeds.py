"""The seeds of a run: streams the tasks of all named sources, routed, and reports the refused ones."""

import asyncio
import time
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import structs
from msgspec.structs import replace

from shoal.core.errors import ShoalError
from shoal.core.failures import error_with_place
from shoal.core.model import SEED_STEP, Task
from shoal.core.tasks import iterate
from shoal.discover.combine.axes import Axis
from shoal.discover.combine.combine import combine
from shoal.discover.feed import Feed, OnRefusal
from shoal.discover.files.files import UrlFile, format_of
from shoal.discover.files.table import DEFAULT_COLUMNS, Columns
from shoal.discover.labels import NO_LABELS, Labels
from shoal.discover.previous import DeadTasks, ItemTasks
from shoal.discover.routing import Routes
from shoal.discover.sitemaps.report import SitemapReport
from shoal.discover.source import Found, OpenSource, Refusal, Source, SourceOptions, shown
from shoal.queue.contract import Queue, QueueReports
from shoal.scrape.scraper import Scraper
from shoal.scrape.seeds import iterate_seeds, user_code

BATCH, BATCH_SECONDS = 500, 0.1


async def iterate_scraper_seeds(scraper: Scraper) -> AsyncIterator[Any]:
    """Yield the seeds of a scraper; raises ShoalError if its function fails."""
    for one in scraper.start:
        yield one
    if scraper.seed_function is None:
        return
    seeds = iterate_seeds(scraper.seed_function, scraper.args, _iterate_in_thread)
    async for one in _iterate_guarded(f"The seeds function of {scraper.name!r}", seeds):
        yield one


async def iterate_source(
    kind: str, opener: OpenSource, addresses: Sequence[str], options: SourceOptions
) -> AsyncIterator[Any]:
    """Yield what a plugin's source yields; raises ShoalError if it fails."""
    seeds = iterate_seeds(lambda: opener(addresses, options), None, _iterate_in_thread)
    async for one in _iterate_guarded(f"The source {kind!r}", seeds):
        yield one


async def _iterate_guarded(what: str, seeds: AsyncIterator[Any]) -> AsyncIterator[Any]:
    count = 0
    try:
        while True:
            try:
                with user_code():
                    one = await anext(seeds)
            except StopAsyncIteration:
                return
            yield one
            count += 1
    except ShoalError:
        raise
    except Exception as error:
        seeds_read = f"{count:,} seed{'' if count == 1 else 's'}"
        raise ShoalError(
            f"{what} failed after {seeds_read}: {error_with_place(error)}. "
            "Fix it and repeat the command; a run that has tasks already continues with --resume newest"
        ) from error


async def _iterate_in_thread(found: Iterable[Any]) -> AsyncIterator[Any]:
    """Yield from an iterable that may block, such as one that reads a database."""
    iterator = iter(found)
    while True:
        batch, error = await asyncio.to_thread(_take, iterator)
        for one in batch:
            yield one
        if error:
            raise error
        if not batch:
            return


def _take(iterator: Iterator[Any]) -> tuple[list[Any], Exception | None]:
    """Return the next few, and the error that ended them."""
    until, batch = time.monotonic() + BATCH_SECONDS, list[Any]()
    try:
        for one in iterator:
            batch.append(one)
            if len(batch) >= BATCH or time.monotonic() > until:
                break
    except Exception as error:
        return batch, error
    return batch, None


Stream = Iterable[str | Task] | AsyncIterable[str | Task]
OnReport = Callable[["SitemapReport"], None]


class Seeds(msgspec.Struct, frozen=True, kw_only=True):
    """The sources of a run, as the user named them."""

    urls: Sequence[str] = ()  # as typed
    given: Sequence[tuple[str, Stream]] = ()  # URLs and tasks that a program passes, each with its name
    file: str | None = None
    format: str | None = None
    encoding: str | None = None
    columns: Columns = DEFAULT_COLUMNS
    sitemaps: Sequence[str] = ()
    hosts: Sequence[str] = ()  # patterns of other hosts whose URLs the sitemaps may list
    feeds: Sequence[str] = ()
    feed_hosts: Sequence[str] = ()  # likewise of the feeds
    others: Mapping[str, Sequence[str]] | None = None  # the addresses of sources by kind, also of plugins
    since: datetime | None = None
    template: str | None = None
    axes: Sequence[str] = ()  # each NAME=FILE or NAME:a,b,c
    templates: Mapping[str, str] | None = None  # for the payload of a combination
    labels: Labels = NO_LABELS
    from_run: str | None = None
    from_items: str | None = None  # STEP or STEP.FIELD; without it, the dead letters of the run
    step: str | None = None
    of_scraper: bool = False  # the seeds that the scraper itself has
    declared_in: str | None = None  # the file that declares them; None if they were typed or passed
    named: Mapping[str, Any] | None = None  # as typed or passed, by the names of options

    def __bool__(self) -> bool:
        by_address = (self.urls, self.given, self.file, self.sitemaps, self.feeds, self.others)
        return any((*by_address, self.template, self.axes, self.from_run, self.of_scraper))

    @property
    def mark(self) -> str:
        """A short text that is the same for the same sources, whatever they list today; it hides secrets."""
        names = [name for name, _ in self.given]
        sources = (self.urls, self.by_kind(), self.template, self.axes, self.from_items, self.step)
        text = repr((names, self.file, sources, bool(self.from_run), self.of_scraper))
        return sha256(text.encode()).hexdigest()[:16] if self else ""

    @property
    def addresses(self) -> list[str]:
        """The URLs that were typed or declared: pages, sitemaps, feeds, and a template with its host."""
        template = [self.template] if self.template and "{" not in _host(self.template) else []
        return [*self.urls, *self.sitemaps, *self.feeds, *template]

    @asynccontextmanager
    async def feed(
        self,
        queue: Queue,
        scraper: Scraper,
        routes: Routes,
        on_refusal: OnRefusal,
        on_report: OnReport,
        on_source: OnReport = lambda report: None,
    ) -> AsyncIterator[Feed]:
        """Yield the tasks of all sources as one stream; what cannot become a task goes to `on_refusal`.

        The report of a source is passed to `on_source` before it is read, and to `on_report` at the end.
        """
        step = self.step or scraper.first.name
        given = [
            self.labels.label(GivenTasks(name, stream, step, scraper.steps)) for name, stream in self.given
        ]
        sources = [*given, *self._local(step), *self._previous(queue, step)]
        if self.of_scraper:
            stream = iterate_scraper_seeds(scraper)
            sources.append(self.labels.label(GivenTasks("seeds", stream, step, scraper.steps)))
        async with AsyncExitStack() as stack:
            if self.by_kind():
                # Each kind of source is imported on use: a run has one of them, rarely two.
                from shoal.fleet.sources.kinds import open_sources

                for source in await stack.enter_async_context(open_sources(self, scraper, step, queue)):
                    if report := getattr(source, "report", None):
                        on_source(report)
                        stack.callback(on_report, report)
                    sources.append(self.labels.label(source))
            yield Feed(*sources, routes=routes, steps=scraper.steps, on_refusal=on_refusal)

    def read_offline(self, scraper: Scraper, routes: Routes) -> Feed | None:
        """Return the tasks of all sources; None if that takes the network, a queue or a seeds function."""
        calls = self.of_scraper and scraper.seed_function
        if not self or self.given or self.file == "-" or self.by_kind() or self.from_run or calls:
            return None
        step = self.step or scraper.first.name
        sources = [*self._local(step)]
        if self.of_scraper:
            sources.append(self.labels.label(GivenTasks("seeds", scraper.start, step, scraper.steps)))
        return Feed(*sources, routes=routes, steps=scraper.steps)

    def by_kind(self) -> list[tuple[str, Sequence[str], Sequence[str]]]:
        """Return the kind, the addresses and the allowed hosts of the sources that are opened by address."""
        hosts = {"sitemap": self.hosts, "feed": self.feed_hosts}
        found = {"sitemap": [*self.sitemaps], "feed": [*self.feeds]}
        for kind, addresses in (self.others or {}).items():
            found.setdefault(kind, []).extend(addresses)
        return [(kind, addresses, hosts.get(kind, ())) for kind, addresses in found.items() if addresses]

    def _local(self, step: str) -> Iterator[Source]:
        if self.urls:
            yield self.labels.label(TypedUrls(self.urls, step))
        if self.file:
            yield self._from_file(self.file, step)
        if self.template or self.axes:
            yield self._from_axes(step)

    def _from_file(self, path: str, step: str) -> Source:
        if format_of(path, self.format) == "txt":
            return self.labels.label(self._url_file(path, step, self.columns))
        columns = replace(self.columns, **self.labels.columns())
        return self.labels.label(self._url_file(path, step, columns), "partition", "priority")

    def _url_file(self, path: str, step: str, columns: Columns) -> "UrlFile":
        return UrlFile(path, step=step, format=self.format, columns=columns, encoding=self.encoding)

    def _from_axes(self, step: str) -> Source:
        axes = [Axis.read(text) for text in self.axes]
        partition = self.labels.columns().get("partition")
        found = combine(self.template, axes, step=step, payload=self.templates, partition=partition)
        return self.labels.label(found, "partition")

    def _previous(self, queue: QueueReports, step: str) -> Iterator[Source]:
        if not self.from_run:
            return

        if self.from_items is None:
            yield self.labels.label(DeadTasks(queue.dead(self.from_run)))
        else:
            source, _, field = self.from_items.partition(".")
            items, whole = queue.items(self.from_run, step=source), bool(self.columns.payload)
            yield self.labels.label(ItemTasks(items, step=step, field=field or None, payload=whole))


class TypedUrls:
    """A source of URLs typed on the command line."""

    def __init__(self, urls: Sequence[str], step: str) -> None:
        self._urls, self._step = urls, step
        self.where = "--url"

    def __iter__(self) -> Iterator[Found]:
        for url in self._urls:
            self.where = f"--url {shown(url)}"
            yield Task(url=url, step=self._step)


class GivenTasks:
    """A source of URLs and tasks that a program passes, read one by one."""

    def __init__(self, name: str, stream: Stream, step: str, steps: Collection[str]) -> None:
        self._name, self._stream, self._step, self._steps = name, stream, step, steps
        self._number = -1

    @property
    def where(self) -> str:
        """The position of the last one, such as "urls[17]"."""
        return f"{self._name}[{self._number}]"

    async def __aiter__(self) -> AsyncIterator[Found]:
        async for one in iterate(self._stream):
            yield self._read(one)

    def _read(self, one: Any) -> Found:
        self._number += 1
        found = task_of(one, self._step, self._steps)
        return found or Refusal(self.where, shown(repr(one)), "it is neither a URL nor a Task")


def task_of(one: Any, step: str, steps: Collection[str]) -> Task | None:
    """Return a URL or task as a task, with this step by default; None for anything else."""
    if isinstance(one, str):
        return Task(url=one, step=step)
    if not isinstance(one, Task):
        return None
    return structs.replace(one, step=step) if one.step == SEED_STEP and SEED_STEP not in steps else one


def _host(template: str) -> str:
    return template.partition("://")[2].partition("/")[0]
