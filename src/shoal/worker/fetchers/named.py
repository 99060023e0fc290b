"""The fetchers that steps choose by name: HTTP, the browser, and those of installed packages."""

from collections.abc import Collection

from shoal.core.errors import ShoalError
from shoal.core.failures import error_with_place
from shoal.fetch.contract import Fetcher, FetcherOptions, OpenFetcher
from shoal.fetch.named import BROWSER, ChoosingFetcher, GuardedFetcher, NamingFetcher
from shoal.queue.contract import Queue
from shoal.registry.registry import Registry
from shoal.registry.signatures import check_call, is_async
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.worker.fetchers.browser import RENDERED, open_browser, rendering_fetchers


def _read_opener(value: object) -> OpenFetcher:
    wanted = "it must be a function or class that takes FetcherOptions and returns a Fetcher"
    check_call(value, 1, wanted)
    if isinstance(value, type):
        for name in ("fetch", "close"):
            if not is_async(getattr(value, name, None)):
                raise TypeError(f"{wanted}, and has no async method {name}")
    opener: OpenFetcher = value  # type: ignore[assignment]
    return opener


def _reuse_http(options: FetcherOptions) -> Fetcher:
    return options.http


# What each one opens below the proxies, sessions and tokens of a run; "auto" uses HTTP and the browser.
FETCHERS: Registry[OpenFetcher] = Registry(
    "shoal.fetchers",
    "fetcher",
    {"http": lambda: _reuse_http, BROWSER: lambda: open_browser, "auto": lambda: open_browser},
    _read_opener,
)


def plugin_fetchers(wanted: Collection[str | None]) -> list[str]:
    """Return the names among those of a scraper's steps that are not built in."""
    return sorted({name for name in wanted if name and name not in FETCHERS.builtin})


def check_fetchers(wanted: Collection[str | None]) -> None:
    """Import the fetchers of plugins; raises PluginFailed."""
    for name in plugin_fetchers(wanted):
        FETCHERS.find(name)


def with_named(options: FetcherOptions, wanted: Collection[str | None]) -> Fetcher:
    """Return a fetcher that uses the one that a request names; raises PluginFailed, BrowserMissing."""
    others: dict[str, Fetcher] = {}
    if RENDERED & set(wanted):
        others[BROWSER] = open_browser(options)
    for name in plugin_fetchers(wanted):
        if opener := FETCHERS.find(name):
            fetcher = _open_plugin(name, opener, options)
            others[name] = GuardedFetcher(name, fetcher, limits=options.limits, egress=options.egress)
    return ChoosingFetcher(options.http, others) if others else options.http


def _open_plugin(name: str, opener: OpenFetcher, options: FetcherOptions) -> Fetcher:
    try:
        fetcher = opener(options)
        for method in ("fetch", "close"):
            if not callable(getattr(fetcher, method, None)):
                raise TypeError(f"it returned a {type(fetcher).__name__}, which has no method {method}")
    except ShoalError:
        raise
    except (Exception, SystemExit) as error:
        raise FETCHERS.failure(name, error_with_place(error)) from error
    return fetcher


def name_fetchers(
    settings: ScraperSettings, queue: Queue, http: Fetcher, uncached: Fetcher, wanted: Collection[str | None]
) -> dict[str, Fetcher]:
    """Return the fetchers by the names that steps use: `http` may have a cache, the others have none."""
    named: dict[str, Fetcher] = {"http": http}
    if RENDERED & set(wanted):
        named |= rendering_fetchers(settings, queue, http, uncached)
    return named | {name: NamingFetcher(uncached, name) for name in plugin_fetchers(wanted)}
