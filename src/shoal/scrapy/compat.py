"""All that this package uses of Scrapy beyond its documented API, with one error if it is missing."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from http.cookiejar import Cookie
from typing import Any

import scrapy
from pydispatch.dispatcher import getAllReceivers, liveReceivers  # type: ignore[import-untyped]
from scrapy import Request, Spider, signals
from scrapy.core.downloader.handlers import DownloadHandlers
from scrapy.core.engine import ExecutionEngine
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.cookies import CookiesMiddleware
from scrapy.exceptions import CloseSpider, DontCloseSpider
from scrapy.extensions.throttle import AutoThrottle
from scrapy.http.cookies import CookieJar
from scrapy.settings import Settings
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.reactor import is_asyncio_reactor_installed, is_reactor_installed
from twisted.internet import asyncioreactor

from shoal.core.errors import InvalidInput

SUPPORTED = "2.15 to 2.19"


class EngineAccess:
    """The parts of a running engine that have no public name; raises InvalidInput if one is missing."""

    def __init__(self, engine: ExecutionEngine) -> None:
        slot: Any = getattr(engine, "_slot", None)
        self._engine: Any = engine
        try:
            self._slot, self._wake = slot, slot.nextcall.schedule
            self._handlers: DownloadHandlers = engine.downloader.handlers
            self._middlewares = engine.downloader.middleware.middlewares
            self._logformatter: Any = engine.scraper.logformatter
            _ = slot.add_request, slot.remove_request, engine._start, self._handlers.download_request_async
        except AttributeError as error:
            raise InvalidInput(
                f"Scrapy {scrapy.__version__} is not supported: {error}. Shoal works with {SUPPORTED}. "
                "Run: pip install 'scrapy<2.20'"
            ) from error

    @property
    def is_closing(self) -> bool:
        """Whether the spider is being closed, or is closed."""
        return self._engine._slot is None or self._slot.closing is not None

    def wake(self) -> None:
        """Have the engine ask its scheduler for requests soon."""
        if not self.is_closing:
            self._wake()

    def on_removed(self, call: Callable[[Request], None]) -> None:
        """Call a function with each request that the engine is done with, including its items."""
        add, remove = self._slot.add_request, self._slot.remove_request
        added: Counter[Request] = Counter()  # a callback may download the request of its response once more

        def add_request(request: Request) -> None:
            added[request] += 1
            add(request)

        def remove_request(request: Request) -> None:
            added[request] -= 1
            if not added[request]:
                del added[request]
                remove(request)
                call(request)

        self._slot.add_request, self._slot.remove_request = add_request, remove_request

    def replace_start(self, make: Callable[[AsyncIterator[Any]], AsyncIterator[Any]]) -> None:
        """Replace what the engine reads the start of the spider from."""
        self._engine._start = make(self._engine._start)

    def around_download(self, turn: Callable[[Request], AbstractAsyncContextManager[None]]) -> None:
        """Send each request of a download handler, also those of pipelines, within this context."""
        download = self._handlers.download_request_async

        async def download_request_async(request: Request) -> Any:
            async with turn(request):
                return await download(request)

        self._handlers.download_request_async = download_request_async  # type: ignore[method-assign]

    def on_download_error(self, call: Callable[[BaseException], None]) -> None:
        """Call a function with the error of each download that no errback has handled."""
        describe = self._logformatter.download_error

        def download_error(failure: Any, *args: Any, **kwargs: Any) -> Any:
            call(failure.value)
            return describe(failure, *args, **kwargs)

        self._logformatter.download_error = download_error

    def cookie_jars(self) -> dict[Any, Any] | None:
        """Return the jars of the cookies middleware by name; None if the project has disabled it."""
        found = (one for one in self._middlewares if isinstance(one, CookiesMiddleware))
        middleware = next(found, None)
        return None if middleware is None else middleware.jars

    def lift_limits(self, settings: Mapping[str, Any]) -> None:
        """Leave the delay and limit of hosts to the queue, as these settings would if it was opened now."""
        downloader, crawler = self._engine.downloader, self._engine.crawler
        self._engine.scraper.concurrent_items = settings["CONCURRENT_ITEMS"]
        downloader._delay, downloader.per_slot_settings = 0.0, settings["DOWNLOAD_SLOTS"]
        downloader.domain_concurrency = settings["CONCURRENT_REQUESTS_PER_DOMAIN"]
        for one in crawler.extensions.middlewares:
            if isinstance(one, AutoThrottle):
                crawler.signals.disconnect(one._spider_opened, signals.spider_opened)
                crawler.signals.disconnect(one._response_downloaded, signals.response_downloaded)


def cookies_of(jar: CookieJar, domain: str) -> list[Cookie]:
    """Return the cookies of a jar for one domain, without looking at those of others."""
    return [one for path in jar._cookies.get(domain, {}).values() for one in path.values()]


def make_idle_crawler(spider_class: type[Spider], settings: Settings, args: Mapping[str, Any]) -> Crawler:
    """Return a crawler with a spider and without an engine or extensions, for the process of a command."""
    changes: dict[str, Any] = {"EXTENSIONS": {}, "EXTENSIONS_BASE": {}, "TWISTED_REACTOR": None}
    changes["TWISTED_REACTOR_ENABLED"] = is_reactor_installed()
    settings.setdict(changes, priority="cmdline")
    crawler = Crawler(spider_class, settings)
    crawler.spider = crawler._create_spider(**args)
    crawler._apply_settings()
    return crawler


async def call_start_requests(spider: Any) -> AsyncIterator[Any]:
    """Take the place of `start()`, which calls `start_requests()` only up to Scrapy 2.15."""
    for one in spider.start_requests():
        yield one


def restore_start_requests(spider_class: type[Spider]) -> None:
    """Let a spider start with its `start_requests()` if it has no `start()` of its own."""
    has_own = hasattr(spider_class, "start_requests") and not hasattr(Spider, "start_requests")
    if has_own and spider_class.start is Spider.start:
        spider_class.start = call_start_requests  # type: ignore[method-assign,assignment]


def has_receivers(crawler: Crawler, signal: object) -> bool:
    """Return whether anything is connected to a signal of a crawler."""
    return any(liveReceivers(getAllReceivers(crawler, signal)))


def send_idle(crawler: Crawler) -> list[Any]:
    """Send `spider_idle`, and return what its receivers have raised of DontCloseSpider and CloseSpider."""
    kinds = (DontCloseSpider, CloseSpider)
    sent = crawler.signals.send_catch_log(signals.spider_idle, spider=crawler.spider, dont_log=kinds)
    raised = [getattr(result, "value", None) for _, result in sent]
    return [one for one in raised if isinstance(one, kinds)]


def is_running(crawler: Crawler) -> bool:
    """Return whether the engine of a crawler takes requests; it is created while the crawler starts."""
    engine = vars(crawler).get("_engine") or vars(crawler).get("engine")  # up to 2.17
    return engine is not None and engine.running


def install_reactor(loop: Any) -> None:
    """Run Twisted's reactor in this event loop; raises InvalidInput if another one is installed."""
    if is_reactor_installed():
        if not is_asyncio_reactor_installed():
            raise InvalidInput(
                "A module of the project has installed a Twisted reactor that does not use asyncio. "
                "Import twisted.internet.reactor inside functions, not at the top of a module"
            )
        return
    asyncioreactor.install(loop)  # type: ignore[no-untyped-call]
    from twisted.internet import reactor  # importing it installs one

    reactor.startRunning(installSignalHandlers=False)


def set_up_reactor(crawler: Crawler) -> None:
    """Give the reactor the resolver and the threads that the project's settings name."""
    from twisted.internet import reactor

    resolver: Any = load_object(crawler.settings["DNS_RESOLVER"])
    build_from_crawler(resolver, crawler, reactor=reactor).install_on_reactor()
    threads = crawler.settings.getint("REACTOR_THREADPOOL_MAXSIZE")
    reactor.getThreadPool().adjustPoolsize(maxthreads=threads)
