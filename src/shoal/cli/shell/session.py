"""What a Python shell of Shoal offers: fetch a page, view it, run a step on it."""

import asyncio
import os
import sys
import webbrowser
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import invalidate_caches
from pathlib import Path
from typing import Any

import uvloop
from msgspec import structs

from shoal.cli.console import counted, put_json, say
from shoal.cli.shell.failed_page import write_file
from shoal.core.errors import InvalidInput
from shoal.core.failures import message_of
from shoal.core.http import Request
from shoal.core.model import NOTHING, Task
from shoal.core.urls import canonical
from shoal.fetch.robots.robots import Robots
from shoal.fleet.sources.names import allowed_private_hosts
from shoal.queue.intake import decode, encode_item
from shoal.scrape.harvest import Harvest
from shoal.scrape.page import Page
from shoal.scrape.scraper import Scraper
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.scrape.step import Step
from shoal.worker.failures.tracebacks import TracebackFormatter, library_of
from shoal.worker.fetchers.chain import FETCHERS, open_fetcher
from shoal.worker.process.inline import inspect_error
from shoal.worker.process.main import USER_AGENT

# In front of a page that a browser shows: links and pictures are found, and no script of the page runs.
_HEAD = (
    '<!doctype html><meta http-equiv="Content-Security-Policy" content="script-src \'none\'"><base href="{}">'
)


class ShellSession:
    """The functions of a shell, and the page and the task that they work on."""

    def __init__(
        self,
        settings: ScraperSettings,
        fetcher: str = "http",
        *,
        load: Callable[[], Scraper] | None = None,
        subject: Page | Task | None = None,
    ) -> None:
        """`load` returns the scraper as its file is now."""
        self._settings, self._fetcher, self._load_scraper = settings, fetcher, load
        self.names: dict[str, Any] = {"fetch": self.fetch, "view": self.view, "run": self.run}
        self.names["debug"] = self.debug
        self._error: Exception | None = None  # of the last run()
        if load:
            self._set_scraper(load())
        if subject is not None:
            self._set_subject(subject)

    def fetch(self, url: str, headers: Mapping[str, str] = NOTHING) -> Page:
        """Fetch a page as a worker would; it becomes `page`."""
        page = self.load(url, headers)
        say(f"{page.status} {page.url}: {len(page.body):,} bytes, {page.encoding}")
        return page

    def load(self, url: str, headers: Mapping[str, str] = NOTHING, task: Task | None = None) -> Page:
        """Fetch a page, of a task if one is given, and print nothing."""
        page = _run_loop(lambda: self._fetch(canonical(url), headers, task))
        self._set_subject(page)
        return page

    def view(self, page: Page | None = None) -> None:
        """Open a page in your web browser, without its scripts; without a display, print its path."""
        page = page or self._page()
        media_type = page.headers.get("content-type", "text/html")
        is_html = "html" in media_type
        body = page.html.encode(errors="replace") if is_html else page.body
        head = _HEAD.format(page.url.replace('"', "%22")).encode() if is_html else b""
        path = write_file(head + body, media_type, "shoal-page-")
        if not (_has_display() and webbrowser.open(path.as_uri())):
            say(str(path))

    def run(self, step: Step | str | None = None, page: Page | None = None) -> None:
        """Run a step on the page and print what it yields, which becomes `harvest`; an error is printed too.

        By default it is the step of the page's task. The scraper's file is loaded again: edit it, and run().
        """
        try:
            harvest = self._run_step(step, page)
        except Exception as error:
            self._error = error
            self._show(error)
        else:
            self._error = None
            self.names["harvest"] = harvest

    def debug(self) -> None:
        """Open the debugger at the line of your code where the last run() failed."""
        if self._error is None:
            say("There is no error to look at: the last run() has raised none.")
        else:
            inspect_error(self._error, self._tracebacks())

    def _run_step(self, step: Step | str | None, page: Page | None) -> Harvest:
        subject = page or self.names.get("page") or self.names.get("task")
        if subject is None:
            raise InvalidInput("There is no page yet. Type: fetch('https://…')")
        chosen = self._find_step(step, subject.task if isinstance(subject, Page) else subject)
        if isinstance(subject, Page):
            # A page that was not run yet: an earlier run may have changed what it remembers of its links.
            args = self.names["scraper"].args if "scraper" in self.names else subject.args
            subject = Page(subject.response, structs.replace(subject.task, step=chosen.name), args)
        # In this thread, so that a debugger works in the step.
        harvest = asyncio.run(chosen.harvest_async(subject)) if chosen.is_async else chosen.harvest(subject)
        for item in harvest.items:
            put_json(decode(encode_item(item)))
        for reject in harvest.rejects:
            say(f"rejected: {reject.reason}")
        for task in harvest.follow:
            say(f"{task.step}: {task.url or dict(task.payload)}")
        links = counted(len(harvest.follow), "new task")
        say(f"Step {chosen.name!r}: {counted(len(harvest.items), 'item')}, {links}.")
        return harvest

    def _show(self, error: Exception) -> None:
        """Print an error as dead letters show it, without the frames of libraries."""
        trace = self._tracebacks().format(error)
        say(trace or f"{type(error).__name__}: {message_of(error)}")
        if trace:
            # As Python's own prompt does for an error that it shows.
            sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
            say("To look at its variables: debug()")

    def _tracebacks(self) -> TracebackFormatter:
        scraper = self.names.get("scraper")
        return TracebackFormatter.for_code(scraper.first.filename) if scraper else TracebackFormatter()

    def _find_step(self, step: Step | str | None, task: Task) -> Step:
        if self._load_scraper is None:
            if isinstance(step, Step):
                return step
            raise InvalidInput("Import a step and type run(step), or start the shell with --scraper FILE")
        forget_modules(Path(self.names["scraper"].first.filename).parent)
        scraper = self._load_scraper()
        self._set_scraper(scraper)
        name = step.name if isinstance(step, Step) else step
        return scraper.handler(structs.replace(task, step=name) if name else task)

    def _set_scraper(self, scraper: Scraper) -> None:
        self.names |= {"scraper": scraper, **scraper.steps}

    def _page(self) -> Page:
        page = self.names.get("page")
        if not isinstance(page, Page):
            raise InvalidInput("There is no page yet. Type: fetch('https://…')")
        return page

    def _set_subject(self, subject: Page | Task) -> None:
        if isinstance(subject, Page):
            self.names["page"] = subject
        self.names["task"] = subject.task if isinstance(subject, Page) else subject

    async def _fetch(self, url: str, headers: Mapping[str, str], task: Task | None) -> Page:
        # Typing a private address allows it, as for commands.
        allowed = [*self._settings.allow_private, *allowed_private_hosts([url])]
        settings = self._settings.replace(allow_private=allowed)
        agent = settings.user_agent or USER_AGENT
        fetcher = await open_fetcher(settings, user_agent=agent, fetch=self._fetcher)
        try:
            if settings.robots:
                await Robots(fetcher, agent).check(url)
            response = await fetcher.fetch(
                Request(
                    url=url,
                    headers={**settings.headers, **headers},
                    timeout=settings.timeout,
                    render=(lambda live: None) if self._fetcher == "browser" else None,
                    fetcher="" if self._fetcher in FETCHERS.builtin else self._fetcher,
                )
            )
            return Page(replace(response, live=None), task or Task(url=url))
        finally:
            await fetcher.close()


def forget_modules(folder: Path) -> None:
    """Forget the imported modules of a folder, so that the next import reads their files again."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and library_of(file) is None and Path(file).is_relative_to(folder):
            del sys.modules[name]
    invalidate_caches()


def _run_loop(work: Callable[[], Coroutine[Any, Any, Page]]) -> Page:
    """Run a coroutine to its end; in another thread if this one has a running event loop, as in notebooks."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return uvloop.run(work())
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: uvloop.run(work())).result()


def _has_display() -> bool:
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
