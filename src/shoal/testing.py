"""Helpers for testing your scraper: pages without a network, steps without a queue, runs from a recording."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

from msgspec import structs

from shoal.core.http import Response
from shoal.core.model import NOTHING, SEED_STEP, Task
from shoal.core.urls import canonical
from shoal.export.archive.warc_read import WarcArchive
from shoal.scrape.harvest import Harvest
from shoal.scrape.page import Page, make_page
from shoal.scrape.requests import sending_without_page
from shoal.scrape.scraper import Scraper
from shoal.scrape.step import Step
from shoal.script.result import RunResult


def page(
    content: str | bytes,
    *,
    url: str = "https://example.com/",
    status: int = 200,
    headers: Mapping[str, str] = NOTHING,
    payload: Mapping[str, Any] = NOTHING,
    args: Any = None,
) -> Page:
    """Return a page without fetching it; text is HTML in UTF-8 unless the headers say otherwise."""
    return make_page(content, Task(url=canonical(url), payload=payload), status, headers, args)


async def run_step(
    step: Step, subject: Page | Task, *, send: Callable[[Task], Page] | None = None
) -> Harvest:
    """Run one step on a page or a task; return its results, or raise its error.

    `send` returns the page for a request that the step sends itself; `task.url` and `task.request` say which.
    """
    if isinstance(subject, Page) and subject.task.step == SEED_STEP:
        subject = Page(subject.response, structs.replace(subject.task, step=step.name), subject.args)
    if not step.is_async:
        return await asyncio.to_thread(step.harvest, subject)
    if send is None:
        return await step.harvest_async(subject)
    respond = send

    async def send_page(task: Task, timeout: timedelta | None) -> Page:
        return respond(task)

    async def send_response(task: Task, timeout: timedelta | None) -> Response:
        return respond(task).response

    if isinstance(subject, Page):
        subject.send = send_response
        return await step.harvest_async(subject)
    with sending_without_page(subject, send_page):
        return await step.harvest_async(subject)


def playback(
    scraper: Scraper, recording: str | Path, *, urls: Iterable[str] = (), **options: Any
) -> RunResult:
    """Run a scraper on a recording of `shoal run --warc`; make no network requests.

    It starts with the given URLs, or by default with the first recorded page. The options are those of
    `scraper.run`, such as `tasks`, `args` and `max_pages`.
    """
    seeds = list(urls)
    if not seeds and not options.get("tasks"):
        first = WarcArchive(recording, max_body=scraper.settings.max_body).first
        seeds = [first] if first else []

    async def run() -> RunResult:
        return await scraper.run(seeds, playback=recording, progress=False, **options)

    # In a separate thread without a running event loop: the caller may be inside one.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, run()).result()
