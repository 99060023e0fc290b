"""The browser fetcher of one worker, from its scraper's settings."""

import os
from collections.abc import Collection
from functools import partial

from shoal.core.http import Response
from shoal.core.model import Task
from shoal.fetch.browser.auto import AutoFetcher, RenderHints, RenderingFetcher
from shoal.fetch.browser.fetcher import BrowserFetcher
from shoal.fetch.contract import Fetcher, FetcherOptions, Limits
from shoal.queue.contract import Queue
from shoal.scrape.page import Page, needs_javascript
from shoal.scrape.settings.scraper import ScraperSettings

RENDERED = frozenset({"browser", "auto"})


def sandbox_notice(wanted: Collection[str | None]) -> str | None:
    """Return the warning for the operator if the browser will run without its sandbox."""
    if os.geteuid() != 0 or not RENDERED & set(wanted):
        return None
    return (
        "Chromium runs without its sandbox because this is root: a page that exploits the browser controls "
        "the whole machine. Run workers as a dedicated user."
    )


def open_browser(options: FetcherOptions) -> Fetcher:
    """Return the fetcher that renders pages; raises BrowserMissing.

    Where some tasks are attempted once at most, no page is fetched again when a browser crashes.
    """
    # Imported only if wanted: most runs need no browser.

    settings = options.settings
    return BrowserFetcher(
        settings.browser,
        Limits(max_body=settings.max_body),
        egress=options.egress,
        agent=options.user_agent,
        user_agent=settings.user_agent,
        may_return=not (options.once or settings.at_most_once),
    )


def rendering_fetchers(
    settings: ScraperSettings, queue: Queue, http: Fetcher, uncached: Fetcher
) -> dict[str, Fetcher]:
    """Return the fetchers that use the browser by the names that steps use; they have no cache."""

    rendering = RenderingFetcher(uncached)
    auto = AutoFetcher(
        http,
        rendering,
        RenderHints(queue),
        partial(_needs_browser, settings.browser.selector),
        gap=settings.delay,
    )
    return {"browser": rendering, "auto": auto}


def _needs_browser(selector: str | None, response: Response) -> bool:
    return needs_javascript(Page(response, Task(url=response.url)), selector)
