"""The browser of one worker, by its scraper's settings."""

import os
from collections.abc import Collection
from functools import partial

from shoal.core.exchange import Response
from shoal.core.model import Task
from shoal.fetch.contract import Fetcher
from shoal.fetch.egress import Egress
from shoal.fetch.limits import Limits
from shoal.queue.contract import Queue
from shoal.scrape.page import Page
from shoal.scrape.settings import ScraperSettings
from shoal.scrape.written import is_written_by_scripts

RENDERED = frozenset({"browser", "auto"})


def sandbox_notice(wanted: Collection[str | None]) -> str | None:
    """Return what to tell the operator where a browser will run without its sandbox."""
    if os.geteuid() != 0 or not RENDERED & set(wanted):
        return None
    return (
        "Chromium runs without its sandbox because this is root: a page that breaks out of it has the whole "
        "machine. Run workers as a user of their own."
    )


def with_browser(
    settings: ScraperSettings,
    fetcher: Fetcher,
    wanted: Collection[str | None],
    *,
    egress: Egress,
    agent: str,
    once: bool = False,
) -> Fetcher:
    """Return a fetcher that can also ask with a browser, where a step wants that; raises BrowserMissing.

    With `once` some tasks are handed out once at most: no page is fetched again when a browser crashes.
    """
    if not RENDERED & set(wanted):
        return fetcher
    # Loaded when wanted: most runs do without.
    from shoal.fetch.browser.fetcher import BrowserFetcher
    from shoal.fetch.browser.rendering import EitherFetcher

    limits = Limits(max_body=settings.max_body)
    browser = BrowserFetcher(
        settings.browser,
        limits,
        egress=egress,
        agent=agent,
        user_agent=settings.user_agent,
        may_return=not (once or settings.at_most_once),
    )
    return EitherFetcher(fetcher, browser)


def by_name(
    settings: ScraperSettings, queue: Queue, http: Fetcher, either: Fetcher, wanted: Collection[str | None]
) -> dict[str, Fetcher]:
    """Return the fetchers by the names that steps use: `http` may have a cache, a browser has none."""
    if not RENDERED & set(wanted):
        return {"http": http}
    from shoal.fetch.browser.auto import AutoFetcher
    from shoal.fetch.browser.rendering import RenderingFetcher
    from shoal.fetch.browser.sites import Sites

    rendering = RenderingFetcher(either)
    auto = AutoFetcher(
        http,
        rendering,
        Sites(queue),
        partial(_needs_browser, settings.browser.selector),
        gap=settings.delay,
    )
    return {"http": http, "browser": rendering, "auto": auto}


def _needs_browser(selector: str | None, response: Response) -> bool:
    return is_written_by_scripts(Page(response, Task(url=response.url)), selector)
