"""Opens the browser of a worker; imported only for a scraper with steps or sites that use one."""

from functools import partial

from shoal.core.http import Response
from shoal.core.model import Task
from shoal.fetch.browser.auto import AutoFetcher, RenderHints, RenderingFetcher
from shoal.fetch.browser.fetcher import BrowserFetcher
from shoal.fetch.contract import Fetcher, FetcherOptions, Limits
from shoal.queue.contract import Queue
from shoal.scrape.page import Page, needs_javascript
from shoal.scrape.settings.scraper import ScraperSettings


def open_browser(options: FetcherOptions) -> Fetcher:
    """Return the fetcher that renders pages; raises BrowserMissing.

    Where some tasks are attempted once at most, no page is fetched again when a browser crashes.
    """
    settings = options.settings
    return BrowserFetcher(
        settings.browser,
        Limits(max_body=settings.max_body),
        egress=options.egress,
        agent=options.user_agent,
        user_agent=settings.user_agent,
        may_return=not (options.once or settings.at_most_once),
    )


def name_rendering(
    settings: ScraperSettings, queue: Queue, http: Fetcher, uncached: Fetcher
) -> dict[str, Fetcher]:
    """Return the fetchers that render pages by the names that steps use; `uncached` has the browser."""
    rendering = RenderingFetcher(uncached)
    needs_browser = partial(_needs_browser, settings.browser.selector)
    auto = AutoFetcher(http, rendering, RenderHints(queue), needs_browser, gap=settings.delay)
    return {"browser": rendering, "auto": auto}


def _needs_browser(selector: str | None, response: Response) -> bool:
    return needs_javascript(Page(response, Task(url=response.url)), selector)
