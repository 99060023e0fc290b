"""Helpers for testing your scraper: pages without a network, steps without a queue, runs from a recording."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec import structs

from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.core.failures import error_text
from shoal.core.http import Headers, Response
from shoal.core.model import (
    MINUTE,
    NOTHING,
    ZERO,
    Bury,
    Done,
    Fate,
    Lease,
    Reject,
    Retry,
    Run,
    RunState,
    Task,
)
from shoal.core.urls import canonical
from shoal.export.archive.warc_read import WarcArchive
from shoal.fetch.archive import PlaybackFetcher
from shoal.fetch.robots.robots import Robots
from shoal.queue.intake import Intake, decode, encode_item
from shoal.scrape.harvest import Harvest
from shoal.scrape.page import Page
from shoal.scrape.requests import sending_without_page
from shoal.scrape.scraper import SEED_STEP, Scraper
from shoal.scrape.step import Step
from shoal.worker.attempts import ProcessorTools, TaskWaits
from shoal.worker.counters import WorkerCounters
from shoal.worker.ipc.step_markers import CELLS, StepMarkers, make_file
from shoal.worker.prefetch import ScheduledLease
from shoal.worker.processor import TaskProcessor
from shoal.worker.scheduler import Scheduler

MAX_TASKS = 100_000


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
    fields = {"content-type": "text/html; charset=utf-8"} if isinstance(content, str) else {}
    body = content.encode() if isinstance(content, str) else content
    address = canonical(url)
    response = Response(url=address, status=status, headers=Headers({**fields, **headers}.items()), body=body)
    return Page(response, Task(url=address, payload=payload), args)


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


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed task and its error."""

    task: Task
    error: str
    traceback: str = ""  # of the step, empty if the page was not found


@dataclass(frozen=True, slots=True)
class PlaybackResult:
    """The results of a run on a recording."""

    items: list[Any] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)  # processed, in order
    failures: list[Failure] = field(default_factory=list)
    not_followed: dict[str, int] = field(default_factory=dict)  # links by reason
    missing: int = 0  # pages that links led to and that do not exist


def playback(
    scraper: Scraper,
    recording: str | Path,
    *,
    urls: Iterable[str] = (),
    tasks: Iterable[Task] = (),
    args: Mapping[str, Any] = NOTHING,
    most: int = MAX_TASKS,
) -> PlaybackResult:
    """Run a scraper on a recording of `shoal run --warc`, task by task; make no network requests.

    It starts with the given URLs and tasks, or by default with the first recorded page.
    """
    first, scraper = scraper.first.name, scraper.replace()
    if args or scraper.args is None:
        scraper.args = scraper.declared_args.read(args)
    seeds = [*tasks, *(Task(url=url, step=first) for url in urls)]
    # In a separate thread without a running event loop: the caller may be inside one.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(_playback(scraper, recording, seeds, most))).result()


async def _playback(scraper: Scraper, recording: str | Path, seeds: list[Task], most: int) -> PlaybackResult:
    scraper = scraper.replace(playback=recording)
    record = WarcArchive(recording, max_body=scraper.settings.max_body)
    if not seeds and record.first:
        seeds = [Task(url=record.first, step=scraper.first.name)]
    async with _open_runner(scraper, record) as runner:
        for task in seeds:
            runner.add(task)
        await runner.run(most)
        return runner.results


@asynccontextmanager
async def _open_runner(scraper: Scraper, record: WarcArchive) -> AsyncIterator["_PlaybackRunner"]:
    fetcher = PlaybackFetcher(record.find, record=record.name)
    robots = Robots(fetcher, scraper.settings.user_agent or "shoal") if scraper.settings.robots else None
    file = make_file()
    marks = StepMarkers(file)
    os.close(file)
    with ThreadPoolExecutor(CELLS - 1) as threads:
        try:
            yield _PlaybackRunner(scraper, ProcessorTools({"http": fetcher}, robots, threads, marks))
        finally:
            marks.close()


class _PlaybackRunner:
    """Runs tasks without a queue: every task once, in the order they were found."""

    def __init__(self, scraper: Scraper, tools: ProcessorTools) -> None:
        run = Run(
            id="playback",
            scraper=scraper.name,
            settings=scraper.run_settings(),
            state=RunState.RUNNING,
            started_at=datetime.now(UTC),
        )
        self.results = PlaybackResult()
        self._tally = WorkerCounters()
        self._intake = Intake(run.id, run.settings)
        scheduler = Scheduler(lease=scraper.settings.lease, gap=ZERO, concurrency=1)
        self._processor = TaskProcessor(
            scraper,
            run,
            tools,
            self._tally,
            waits=TaskWaits(scheduler),
        )
        self._waiting: deque[Lease] = deque()
        self._seen: set[bytes] = set()

    def add(self, task: Task) -> None:
        """Add a task unless it is a duplicate; raises InvalidTask."""
        entry = self._intake.entry(task)
        if entry.id in self._seen:
            return
        self._seen.add(entry.id)
        self._waiting.append(
            Lease(
                run_id="playback",
                task_id=entry.id.hex(),
                token=1,
                task=structs.replace(task, url=entry.url),
                attempt=1,
                start_in=ZERO,
                deadline_in=MINUTE,
            )
        )

    async def run(self, most: int) -> None:
        """Process tasks until none is left; raises InvalidSetting if there are more than `most`."""
        try:
            await self._process_all(most)
        finally:
            self.results = replace(
                self.results, not_followed=dict(self._tally.dropped), missing=self._tally.missing.count
            )

    async def _process_all(self, most: int) -> None:
        while self._waiting:
            if len(self.results.tasks) >= most:
                raise InvalidSetting(
                    "most", f"allows {most:,} tasks, and the playback has more. Raise it: most=…"
                )
            lease = self._waiting.popleft()
            self.results.tasks.append(lease.task)
            outcome = await self._processor.process(ScheduledLease(lease, 0.0), len(self.results.tasks))
            self._processor.count_settled(outcome, Fate.ACCEPTED)
            if isinstance(outcome, Done):
                self._store(outcome)
            elif isinstance(outcome, Retry | Bury):
                self.results.failures.append(
                    Failure(lease.task, error_text(outcome.error), outcome.traceback)
                )

    def _store(self, done: Done) -> None:
        """Store the results of a task, or none of them if the queue would refuse a part."""
        try:
            items = [decode(encode_item(item)) for item in done.items]
            for task in done.follow:
                self._intake.entry(task)
        except InvalidInput as error:
            self.results.failures.append(Failure(done.lease.task, error_text(error)))
            return
        self.results.items.extend(items)
        self.results.rejects.extend(done.rejects)
        for task in done.follow:
            self.add(task)
